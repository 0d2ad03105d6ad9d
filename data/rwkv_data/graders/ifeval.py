"""ifeval-v1 and ifbench-v1: which of a prompt's rules the response follows (Zhou et al. 2023, arXiv 2311.07911;
Pyatkin et al. 2025, arXiv 2507.02833).

Strict: the response as it is. Loose: any of its 8 variants (as it is, without the first line, without the last,
without both; each with and without `*`) follows the rule; each rule may choose its own variant. An empty response
follows nothing. The value is the strict verdict on the whole prompt. `parts` holds what the other measures need:

    prompt_loose                     1 if every rule is followed loosely, else 0
    followed_strict, followed_loose  how many of the rules
    instructions                     how many there are
    FAMILY.followed_strict ...       the same three for each family (`keywords`, `startend` ...) of the prompt

Only one thing is taken off a response: the one blank in front that belongs to the prompt's form, which ends in
`Assistant:`. A grader of the part "behind a thought" judges what follows the last `</think>`, without the blanks around
it: a thought that never ends leaves an empty response. One of the part "after thoughts" does so where an answer has a
thought, and judges the whole of any other.

A rule that is unknown or fails is an `error` of the whole sample: it has no verdict. The route tells which model
split the sentences, where a rule may ask for that.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, Literal

from rwkv_data.definition.answer import Answer, Grade, Reason
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.stage import Row
from rwkv_data.instructions import sentences
from rwkv_data.instructions.instruction_rows import RULES
from rwkv_data.instructions.rule import bound

ResponsePart = Literal["all", "behind a thought", "after thoughts"]
_THOUGHT, _END_OF_THOUGHT = "<think>", "</think>"


def response_of(answer: Answer) -> str:
    """Return the response to grade: the completion without the one leading blank that follows `Assistant:`."""
    return answer.text.removeprefix(" ")


def response_behind_thought(answer: Answer) -> str:
    """Return the text to grade where the prompt asked for a thought first."""
    return answer.text.rpartition(_END_OF_THOUGHT)[2].strip() if _END_OF_THOUGHT in answer.text else ""


def response_after_thoughts(answer: Answer) -> str:
    """Return the text to grade of a reply that may begin with thoughts: a thought that never ends has no response."""
    if _END_OF_THOUGHT in answer.text:
        return response_behind_thought(answer)
    return "" if answer.text.lstrip().startswith(_THOUGHT) else response_of(answer)


def variants(response: str) -> tuple[str, ...]:
    """Return the response and its loose variants, each once, without blank ones."""
    lines = response.split("\n")
    cut = ["\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])]
    plain = [text.replace("*", "") for text in (response, *cut)]
    return tuple(text for text in dict.fromkeys((response, plain[0], *cut, *plain[1:])) if text.strip())


def followed(follows: Callable[[str], bool], response: str) -> tuple[bool, bool]:
    """Whether a rule is followed strictly, and loosely."""
    if response.strip() and follows(response):
        return True, True
    return False, any(follows(variant) for variant in variants(response)[1:])


def grade(row: Row, answer: Answer, response: Callable[[Answer], str] = response_of) -> Grade:
    """Grade a response by every rule of its prompt, strictly and loosely."""
    names, text = row["instruction_id_list"], response(answer)
    try:
        pairs = list(zip(names, row["kwargs"], strict=True))
        verdicts = [followed(_rule(name, arguments), text) for name, arguments in pairs]
    except (RowError, ValueError, ImportError) as error:  # a row that cannot be graded, or a missing library
        return Grade(None, None, ", ".join(names), "error", str(error), sentences.splitter())
    strict, loose = ([pair[which] for pair in verdicts] for which in (0, 1))
    missed = [name for name, yes in zip(names, strict, strict=True) if not yes]
    found = f"{len(names) - len(missed)} of {len(names)} rules"
    reason: Reason = "no_answer" if not text.strip() else "wrong" if missed else "right"
    return Grade(
        value=float(not missed),
        extracted=found if text.strip() else None,
        expected=", ".join(names),
        reason=reason,
        detail=f"not followed: {', '.join(missed)}" if missed else "",
        route=sentences.splitter(),
        parts=_parts(names, strict, loose),
    )


def _rule(name: str, arguments: Row) -> Callable[[str], bool]:
    if name not in RULES:
        raise RowError(f"the rule {name!r} is unknown to this grader")
    try:
        return bound(RULES[name], {key: value for key, value in arguments.items() if value is not None})
    except RowError as error:
        raise RowError(f"the rule {name!r} cannot be used: {error}") from error


def _parts(names: list[str], strict: list[bool], loose: list[bool]) -> dict[str, float]:
    counts: Counter[str] = Counter()
    for name, is_strict, is_loose in zip(names, strict, loose, strict=True):
        for family in ("", name.partition(":")[0] + "."):
            counts[f"{family}instructions"] += 1
            counts[f"{family}followed_strict"] += is_strict
            counts[f"{family}followed_loose"] += is_loose
    return {"prompt_loose": float(all(loose)), **{name: float(count) for name, count in counts.items()}}


_PARTS: Final[dict[ResponsePart, tuple[str, Callable[[Answer], str]]]] = {
    "all": ("", response_of),
    "behind a thought": ("+behind-thought", response_behind_thought),
    "after thoughts": ("+after-thoughts", response_after_thoughts),
}
"""For each part of an answer what the grader's version says of it, and how it is found."""


def _grader(name: str, part: ResponsePart) -> Grader:
    said, response = _PARTS[part]
    version = f"1+{sentences.splitter()}+langdetect-1.0.9{said}"
    return Grader.of(name, version, partial(grade, response=response))


def ifeval(part: ResponsePart = "all") -> Grader:
    """Return the grader of IFEval."""
    return _grader("ifeval-v1", part)


def ifbench(part: ResponsePart = "all") -> Grader:
    """Return the grader of IFBench, whose headline is the mean of the part `prompt_loose`."""
    return _grader("ifbench-v1", part)


IFEVAL = ifeval()
IFBENCH = ifbench()
