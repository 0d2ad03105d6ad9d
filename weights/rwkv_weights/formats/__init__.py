"""Formats of checkpoints: pth, safetensors, Hugging Face."""
