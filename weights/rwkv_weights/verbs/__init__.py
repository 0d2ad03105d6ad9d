"""The verbs of `python -m rwkv_weights`, a file for each."""
