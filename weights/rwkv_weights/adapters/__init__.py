"""Adapters of RWKV-7: what a training run writes instead of a whole checkpoint, and their merging into a base."""
