"""The SQL of the daemon, one file per subject."""
