"""The kinds that every maths set of the catalogue has, and the form in which each expects an answer."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rwkv_data.definition.answer import Answer
from rwkv_data.definition.benchmark import Example, by_name
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.graders.maths import grader, minerva_ocw, number, olympiad
from rwkv_data.judges import rwkv_skills
from rwkv_data.profiles import chat_turn, lm_eval_maths, maths_albatross, maths_v2, qwen_math
from rwkv_data.profiles.free_response import free_response_judge
from rwkv_data.profiles.maths_examples import Examples
from rwkv_data.profiles.param_search import param_search

JUDGE: Final = rwkv_skills.RULE
_WHOLE_REPLY: Final = {
    grader.GRADER.name: grader.TEXT,
    number.NUMBER.name: number.TEXT,
    olympiad.GRADER.name: olympiad.TEXT,
    minerva_ocw.GRADER.name: minerva_ocw.TEXT,
}
"""For each grader of a box that the prompt has opened, the one that finds the answer in a whole reply."""


def maths_set(
    kind: Kind, more: Sequence[Kind] = (), *, judged: bool = False, qwen: Examples | None = None
) -> dict[str, Kind]:
    """Return a set's kinds, of which `kind` is the usual one. `judged`: rwkv-skills has this set judged, so where a
    judge is set that kind runs by default. `qwen`: the examples of the evaluation of Qwen2.5-Math, for the sets that it
    has."""
    judge_kind = free_response_judge(kind, JUDGE, default=judged)
    kinds = [kind, judge_kind, maths_v2.thinking(kind), maths_v2.unthinking(kind)]
    if (whole := _WHOLE_REPLY.get(kind.grader.name)) is not None:
        kinds.append(chat_turn.chat("free_response", chat_turn.boxed_question, whole, group_by=kind.group_by))
    if qwen is not None:
        kinds.append(qwen_math.qwen_math(qwen, group_by=kind.group_by))
    return by_name([*kinds, *more, param_search(kind), param_search(judge_kind)])


def _sentence(answer: str) -> str:
    return f"Therefore, the answer is $\\boxed{{{answer}}}$."


def _bare(answer: str) -> str:
    return answer


FORMS: Final[Mapping[str, Callable[[str], str]]] = {
    "free_response.chat": _sentence,
    lm_eval_maths.NAME_COT: lambda answer: f" So there are {answer} of them. The answer is {answer}.",
    lm_eval_maths.NAME_HENDRYCKS: lambda answer: f" ${answer}$",
    maths_albatross.NAME: _sentence,
    qwen_math.NAME: _sentence,
}
"""How a completion of a kind gives an answer; for other kinds, the content of an opened box."""


def examples(
    kinds: Mapping[str, Kind], row: Row, right: str, wrong: str, forms: Mapping[str, Callable[[str], str]] | None = None
) -> tuple[Example, ...]:
    """Return a right and a wrong example of each kind. A judged kind does not grade a wrong answer before its judge
    does, so there the wrong one is empty. `forms` adds to FORMS."""
    known = {**FORMS, **(forms or {})}
    found: list[Example] = []
    for name in kinds:
        form = known.get(name, _bare)
        bad = "" if name.endswith("_judge") else form(wrong)
        found += [Example(row, Answer(form(right), _ENDED), 1.0, name), Example(row, Answer(bad, _ENDED), 0.0, name)]
    return tuple(found)


_ENDED: Final = ("stop_token", "stop_token")
