"""One file for each first word of the command line; `rwkvctl.verbs` finds them by name."""
