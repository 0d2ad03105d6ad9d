"""The machine around the daemon: disk, systemd, the daemon's log, files of other users."""
