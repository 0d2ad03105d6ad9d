"""Decides which sequences run in the next step. Without torch."""
