r"""olympiad-v1 and olympiad-text-v1: several answers in any order, units, tolerances (OlympiadBench, arXiv 2402.14008).

Of the row: `multiple` says that the answer is a list, whose order is free (`1, 3` and `3, 1` are the same); `tolerance`
is the absolute error that a number may have; `unit` is taken out of the answer. A list has as many answers as the
reference; `a \pm b` is two of them. The benchmark's own judge also takes 100 times the reference and a hundredth of it
for right; this one does not. A single answer without a tolerance is graded as by math-verify-v1.
"""

import re

from rwkv_data.definition.stage import Row
from rwkv_data.graders.extract import of_box, of_text
from rwkv_data.graders.maths import answer_text
from rwkv_data.graders.maths.grader import ROUNDED, asked, equality, in_process
from rwkv_data.graders.maths.maths_worker import MathsClient

_VERSION = "3+math-verify-0.9"
_MOST = 60
_MARKS = re.compile(
    r"(?P<between>[,;]|\\text\{\s*(?:and|or)\s*\}|\b(?:and|or)\b|\\q?quad\b)|(?P<opens>[(\[{])|(?P<closes>[)\]}])"
)


def listed(text: str, unit: str = "") -> list[str]:
    """Return the answers in a text, split at commas, semicolons, `and` and `or` outside brackets."""
    text = _without(unit, answer_text.tidy(text))
    if text.startswith("\\{") and text.endswith("\\}") and "\\}" not in text[2:-2]:
        text = text[2:-2]
    parts = [part.lstrip(" ~").rstrip(" .,;~") for part in _apart(text)]
    return [answer for part in parts if part for answer in _signs(part)][:_MOST]


def _without(unit: str, text: str) -> str:
    unit = answer_text.tidy(unit)
    return text.replace(f"\\{unit}", "").replace(unit, "").strip() if unit else text


def _apart(text: str) -> list[str]:
    parts, start, depth = [], 0, 0
    for match in _MARKS.finditer(text):
        if match["opens"]:
            depth += 1
        elif match["closes"]:
            depth = max(0, depth - 1)
        elif depth == 0:
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def _signs(part: str) -> list[str]:
    if "\\pm" not in part:
        return [part]
    return [part.replace("\\pm", "+").lstrip("+ "), part.replace("\\pm", "-")]


def compare(process: MathsClient, row: Row, text: str) -> tuple[bool, str]:
    """Whether a text gives the row's answers."""
    gold, unit = str(row["answer"]), str(row.get("unit") or "")
    tolerance = float(row.get("tolerance") or 0)
    known = answer_text.verdict(gold, text)
    if known in {"equal", "rounded"}:
        return True, ROUNDED if known == "rounded" else ""
    if reason := answer_text.objection(gold, text):
        return False, reason
    if not row.get("multiple"):
        predicted = _without(unit, answer_text.tidy(text))
        if not tolerance:
            return equality(process, gold, predicted)
        return _matched(process, [_without(unit, answer_text.tidy(gold))], [predicted], tolerance)
    golds, answers = listed(gold, unit), listed(text, unit)
    if len(golds) != len(answers):
        return False, f"{len(answers)} answers where {len(golds)} are due"
    return _matched(process, golds, answers, tolerance)


def _matched(process: MathsClient, golds: list[str], answers: list[str], tolerance: float) -> tuple[bool, str]:
    left = list(answers)
    unmatched, remark = [], ""
    for gold in golds:
        known = [answer_text.verdict(gold, answer) for answer in left]
        twin = next((index for index, one in enumerate(known) if one in {"equal", "rounded"}), None)
        if twin is None:
            unmatched.append(gold)
        else:
            remark = ROUNDED if known[twin] == "rounded" else remark
            del left[twin]
    if not unmatched:
        return True, remark
    reply = asked(process, "matched", unmatched, left, tolerance=tolerance, relative=False)
    return reply["equal"], remark * reply["equal"] if reply["read"] else "math-verify cannot read all of it"


GRADER = in_process("olympiad-v1", _VERSION, compare, of_box)
TEXT = in_process("olympiad-text-v1", _VERSION, compare, of_text)
