"""Whether a grade of a part of a reasoning is one of an answer that the part states.

A whole completion has an answer somewhere, so the chains of the graders end in rules such as "the last number". In a
part of a reasoning the last number is any number, and "whether the answer is correct" announces none. So a verdict
"right" counts wherever an answer is announced, and a verdict "wrong" only where nothing else can be meant: in a box, or
if the part has one program.
"""

import re
from typing import Final

ANNOUNCED: Final = frozenset(
    {"boxed", "sentence", "text", "minerva", "strict-match", "get-answer", "last-fence", "between-fences"}
)
"""Routes by which an answer, or a program, is found as such."""
_BOX: Final = re.compile(r"\\(?:boxed|fbox)\s*\{")
_FENCE: Final = "```"


def states_answer(text: str, route: str, *, right: bool) -> bool:
    """Whether a verdict on a part of a reasoning, found on a route, is one on an answer that the part states."""
    rule = route.partition(",")[0]
    if right:
        return rule in ANNOUNCED
    if rule in {"last-fence", "between-fences"}:
        return text.count(_FENCE) == 2
    return rule == "minerva" or (rule == "boxed" and _BOX.search(text) is not None)
