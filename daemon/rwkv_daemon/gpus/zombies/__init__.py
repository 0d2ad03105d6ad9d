"""Processes that hold a GPU's memory: whether they are still needed, and the careful end of our own orphans."""
