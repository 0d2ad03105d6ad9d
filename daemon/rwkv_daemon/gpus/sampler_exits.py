"""Exit codes of the sampler process."""

from typing import Final

NO_NVML: Final = 3
"""There is no NVML here."""
DRIVER_GONE: Final = 4
"""The driver stopped answering, and must be opened anew."""
