"""GPUs of the node: the sampler that asks NVML, what its readings mean, and the condition of each GPU."""
