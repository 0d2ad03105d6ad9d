"""The watched folders, as the daemon holds them in memory, and the files in them."""
