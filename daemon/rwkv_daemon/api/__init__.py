"""The HTTP door of the daemon: who is let in, and which function answers."""
