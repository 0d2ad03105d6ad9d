"""What the daemon does by itself from time to time: upkeep of its store and folders, and what it says of itself."""
