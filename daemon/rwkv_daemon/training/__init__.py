"""Watching the folders of training runs: each checkpoint is measured as soon as it is whole."""
