"""The console: screens that draw a plain state which one task keeps up to date from the daemon's event stream."""
