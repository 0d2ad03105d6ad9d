"""The helper that writes the Hugging Face layout, for every test that wants a checkpoint in it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

HELPER = Path(__file__).with_name("hf_layout.py")


@pytest.fixture(scope="session")
def hf_layout() -> ModuleType:
    """The module `tests/unit/weights/hf_layout.py`."""
    if "hf_layout" not in sys.modules:
        spec = importlib.util.spec_from_file_location("hf_layout", HELPER)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["hf_layout"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["hf_layout"])
    return sys.modules["hf_layout"]
