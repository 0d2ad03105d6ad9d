"""Engine processes: launched, watched, asked over HTTP, unloaded."""
