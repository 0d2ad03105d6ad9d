"""Recipes of training data on the console: the list, the funnel of one, and what lies behind its figures."""
