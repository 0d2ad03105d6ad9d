"""The dispatch form of the console."""
