"""Messages about training runs."""
