"""Public files that sets come from, at fixed commits."""

from typing import Final

from rwkv_data.definition.benchmark import WebSource

_QWEN: Final = ("QwenLM/Qwen2.5-Math", "a45202bd16f1ec06f433442dc1152d0074773465")


def github(repository: str, commit: str, files: dict[str, str]) -> WebSource:
    """Files of a repository: path -> sha256."""
    base = f"https://raw.githubusercontent.com/{repository}/{commit}"
    return WebSource(tuple(f"{base}/{path}" for path in files), tuple(files.values()))


def qwen_set(name: str, sha256: str) -> WebSource:
    """A set of the evaluation of Qwen2.5-Math."""
    return github(*_QWEN, {f"evaluation/data/{name}/test.jsonl": sha256})
