"""Watched folders of training runs on the console: the folders, their checkpoints, and scores over their steps."""
