"""The step of a training run that the name of a checkpoint says. Pure."""

import re
from typing import Final

from rwkvctl.protocol.training.watches import FINAL_STEP

_NUMBER: Final = "([0-9]{1,15})(?![0-9]|[.e][0-9])"
_SAID: Final = tuple(
    re.compile(f"(?i)(?:^|[^a-z])(?:{words})s?[-_= ]?{_NUMBER}")
    for words in ("(?:global[-_]?)?step|iter|iteration", "epoch|ep", "checkpoint|ckpt")
)
"""What training scripts write before a step; where a name has two of them, the first kind counts."""
_LAST_NUMBER: Final = re.compile(f"(?:^|[-_ ]){_NUMBER}(?:-of-[0-9]+)?$")
_FINAL: Final = re.compile(r"(?i)(?:^|[-_. ])(?:final|last)(?:$|[-_. ])")
_FIRST: Final = re.compile(r"(?i)(?:^|[-_. ])(?:init|initial)(?:$|[-_. ])")


def step_of(name: str, pattern: str = "") -> int | None:
    """Return the step that a checkpoint's name says: where `{}` stands in a pattern such as `ckpt_{}_of`, or as
    training scripts write it, in the last part of the name that says one: `rwkv-12.pth`, `step1200.pth`,
    `step-1200/model.pth`, `rwkv-init.pth`, `rwkv-final.pth`. None if it says none. A pattern is no regular expression,
    which could take for ever."""
    if pattern:
        before, _, behind = pattern.partition("{}")
        found = re.search(f"{re.escape(before)}([0-9]{{1,15}}){re.escape(behind)}", name)
        if found:
            return int(found[1])
    stem = name.removesuffix(".pth").removesuffix(".safetensors")
    steps = (_step_of_part(part, words_only=bool(pattern)) for part in reversed(stem.split("/")))
    return next((step for step in steps if step is not None), None)


def _step_of_part(part: str, *, words_only: bool) -> int | None:
    """Return the step that a part of a name says. `words_only`: only that it is the first or the last."""
    if _FINAL.search(part):
        return FINAL_STEP
    if _FIRST.search(part):
        return 0
    found = [said for one in _SAID for said in one.findall(part)] or _LAST_NUMBER.findall(part)
    return int(found[0]) if found and not words_only else None
