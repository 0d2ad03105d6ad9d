"""What is configured: files, environment and secrets, and the process's own surroundings."""
