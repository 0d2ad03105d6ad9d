"""Queries about watched folders of training runs."""
