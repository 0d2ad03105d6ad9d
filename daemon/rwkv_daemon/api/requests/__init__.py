"""Answers to requests, one file per group of requests."""
