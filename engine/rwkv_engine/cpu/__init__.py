"""The model on the CPU, the reference for the GPU's."""
