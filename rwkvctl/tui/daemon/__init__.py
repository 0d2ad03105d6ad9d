"""What the console hears of the daemon, and how it asks."""
