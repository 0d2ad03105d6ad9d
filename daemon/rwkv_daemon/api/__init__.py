"""The daemon's HTTP API: who may ask, and which function answers."""
