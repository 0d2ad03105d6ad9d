"""The daemon's periodic upkeep: of its store and folders, and its status for the service manager."""
