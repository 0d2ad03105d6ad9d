"""One file for each first word of the command line; `rwkvctl.cli.registry` finds them by name."""
