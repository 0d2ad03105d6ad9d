"""The node's subjects on the console: GPUs, processes, weights, benchmarks, the judge."""
