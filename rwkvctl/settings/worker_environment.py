"""The environment variables that workers inherit: those they need, by name. All others are withheld, so that a key in
the daemon's environment is in no worker's. Pure: `rwkvctl.settings.config` passes in the environment."""

from collections.abc import Mapping
from typing import Final

NEEDED: Final = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD",
        "VIRTUAL_ENV", "CC", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "NLTK_DATA",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_DATASETS_CACHE",
        "FAKE_NVML_STATE",
    }
)  # fmt: skip
FAMILIES: Final = (
    "LC_", "PYTHON", "CUDA", "NVIDIA_", "NCCL_", "TRITON_", "TORCH", "PYTORCH_", "OMP_", "MKL_", "OPENBLAS_", "KMP_",
    "MALLOC_", "CUBLAS_",
)  # fmt: skip
"""Beginnings of names: how Python, CUDA, torch and the arithmetic libraries are told what to do."""


def for_workers(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a worker inherits: those in NEEDED and those that begin like one of FAMILIES."""
    return {name: text for name, text in environ.items() if name in NEEDED or name.startswith(FAMILIES)}
