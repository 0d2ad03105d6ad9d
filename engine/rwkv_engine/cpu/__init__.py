"""The model on the CPU, which is the reference for the one on the GPU."""
