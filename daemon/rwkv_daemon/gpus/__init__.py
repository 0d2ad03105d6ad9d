"""GPUs of the node: the sampler that asks NVML, what its readings mean, and how each GPU is kept."""
