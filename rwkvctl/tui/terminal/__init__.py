"""The terminal: frames sent as differences, back-pressure, clipboard, the browser in its place."""
