"""`python -m rwkv_daemon.gpus.sampler_main`: runs `nvml_sampler`, the only caller of NVML, where there is NVML."""

import ctypes
import sys

from rwkv_daemon.gpus.sampler_exits import NO_NVML


def main(words: list[str]) -> int:
    """Sample until stdin closes; returns the exit code (`sampler_exits`)."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")  # first: a node without a GPU imports nothing more
    except OSError:
        return NO_NVML
    from rwkv_daemon.gpus import nvml_sampler

    return nvml_sampler.main(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
