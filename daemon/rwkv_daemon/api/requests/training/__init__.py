"""Answers to requests about training runs and what they are compared with."""
