"""What is around every screen: frame, status line, keys, command line, palette, dialogs."""
