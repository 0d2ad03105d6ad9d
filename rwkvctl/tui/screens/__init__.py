"""One file a screen, found by discovery: each defines SCREEN, a ConsoleScreen with NAME, KEY and TITLE."""
