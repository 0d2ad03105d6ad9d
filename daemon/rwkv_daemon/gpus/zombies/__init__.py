"""Who holds a GPU's memory, whether that process still lives for somebody, and the careful end of our own orphans."""
