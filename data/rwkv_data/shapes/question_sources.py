"""Public files that several sets come from, at fixed commits."""

from typing import Final

from rwkv_data.benchmark import WebSource

_QWEN: Final = "https://raw.githubusercontent.com/QwenLM/Qwen2.5-Math/a45202bd16f1ec06f433442dc1152d0074773465"


def qwen_set(name: str, sha256: str) -> WebSource:
    """A set of the evaluation of Qwen2.5-Math."""
    return WebSource((f"{_QWEN}/evaluation/data/{name}/test.jsonl",), (sha256,))
