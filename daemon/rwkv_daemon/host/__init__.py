"""The machine around the daemon: disk, systemd, its own log, files of other users."""
