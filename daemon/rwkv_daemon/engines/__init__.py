"""Engine processes: launched, watched, queried over HTTP, unloaded."""
