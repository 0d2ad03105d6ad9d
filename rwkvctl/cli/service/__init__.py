"""The systemd service: its units, its folders, and what it leaves behind."""
