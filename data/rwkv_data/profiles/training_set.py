"""The kinds of a test set for the training split of the same set."""

from collections.abc import Mapping
from dataclasses import replace

from rwkv_data.definition.benchmark import Example
from rwkv_data.definition.kind import Kind
from rwkv_data.profiles import LM_EVAL


def training_kinds(kinds: Mapping[str, Kind]) -> dict[str, Kind]:
    """Return the kinds but those of the harness, whose tasks are of the test split. Examples would be drawn from the
    training split itself, where a question could be its own: `shots` is a setting only where they are fixed."""
    left = {name: kind for name, kind in kinds.items() if kind.profile != LM_EVAL[0]}
    return {name: kind if _is_fixed(kind) else replace(kind, shots=None) for name, kind in left.items()}


def of_kinds(examples: tuple[Example, ...], kinds: Mapping[str, Kind]) -> tuple[Example, ...]:
    """Return the examples that are of any of these kinds."""
    return tuple(example for example in examples if not example.kind or example.kind in kinds)


def _is_fixed(kind: Kind) -> bool:
    return kind.shots is not None and bool(kind.shots.fixed)
