r"""The form of a completion with a thought and a solution, how it is written and how it is read.

    <|begin_of_thought|>

    ...

    <|end_of_thought|>

    <|begin_of_solution|>

    ...

    <|end_of_solution|>

These blank lines and both texts stripped are the normal form. (The marks are those of Sky-T1.) The solution states its
answer in exactly one `\boxed{...}`; without any box, in exactly one code block.

Completions and replies are hostile input. Everything here is linear in their length.
"""

import re
from typing import Final

from rwkv_data.graders.maths.boxed import closes_box, inside_box
from rwkv_data.recipes.cleaning.words import words_of
from rwkv_data.writers.writer_rule import UnusableRewritingError

MARKS: Final = ("<|begin_of_thought|>", "<|end_of_thought|>", "<|begin_of_solution|>", "<|end_of_solution|>")
_MARK: Final = re.compile("|".join(map(re.escape, MARKS)))
_BOX: Final = re.compile(r"\\boxed(?![a-zA-Z])")
_FENCE: Final = re.compile(r"(`{3,})[^`]*")


def convert(original: str) -> str | None:
    """Return the normal form of an original that has the form already, or of one whose thought ends with its only
    `</think>`; None for every other. Both texts are the original's own, so nothing is compared."""
    for candidate in (original, _from_think_tags(original)):
        try:
            return normal_form(*parts_of(candidate))
        except UnusableRewritingError:
            continue
    return None


def normal_form(thought: str, solution: str) -> str:
    """Return both texts, which are stripped, between their marks."""
    begin_thought, end_thought, begin_solution, end_solution = MARKS
    return "\n\n".join((begin_thought, thought, end_thought, begin_solution, solution, end_solution))


def _from_think_tags(original: str) -> str:
    """Return the parts before and after the only `</think>` in normal form; empty if there is no such split."""
    text = original.strip().removeprefix("<think>")
    thought, _, solution = text.partition("</think>")
    once = text.count("</think>") == 1 and "<think>" not in text
    return normal_form(thought.strip(), solution.strip()) if once else ""


def without_own_thought(reply: str) -> str:
    """Return a reply without what its writer thought first. The opening tag may be missing, because some templates put
    it into the prompt; then a mark in front of the closing tag shows that the tag belongs to the rewriting."""
    thought, closed, rest = reply.partition("</think>")
    own = thought.lstrip().startswith("<think>") or not _MARK.search(thought)
    return rest if closed and own else reply


def without_fence(reply: str) -> str:
    """Return a reply without a code block around the whole of it."""
    first, _, below = reply.strip().partition("\n")
    inside, _, last = below.rpartition("\n")
    opening = _FENCE.fullmatch(first.strip())
    return inside if opening and last.strip() == opening[1] else reply


def parts_of(text: str) -> tuple[str, str]:
    """Return the thought and the solution of a text in the form, stripped. Raises UnusableRewritingError."""
    found = _MARK.findall(text)
    for mark in MARKS:
        _require(found.count(mark) == 1, f"The mark {mark} must stand once, but stands {found.count(mark)} times.")
    _require(tuple(found) == MARKS, "The four marks are not in their order.")
    before, thought, between, solution, after = (part.strip() for part in _MARK.split(text))
    _require(not (before or between or after), "There is text outside the thought and the solution.")
    _require(bool(words_of(thought)), "The thought holds no word.")
    _require(bool(solution), "The solution is empty.")
    _require_one_answer(solution)
    return thought, solution


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise UnusableRewritingError("form", sentence)


def _require_one_answer(solution: str) -> None:
    boxes = [match.end() for match in _BOX.finditer(solution)]
    if not boxes:
        _require_one_code_block(solution)
        return
    _require(len(boxes) == 1, f"The solution must hold one \\boxed, but holds {len(boxes)}.")
    opened = solution[boxes[0] :].lstrip()
    _require(opened.startswith("{") and closes_box(opened[1:]), "The box of the solution has no closed braces.")
    _require(bool(inside_box(opened[1:])), "The box of the solution is empty.")


def _require_one_code_block(solution: str) -> None:
    blocks = _code_blocks(solution)
    _require(len(blocks) == 1, f"The solution holds no \\boxed, and {len(blocks)} code blocks instead of one.")
    _require(bool(blocks[0].strip()), "The code block of the solution is empty.")


def _code_blocks(text: str) -> list[str]:
    """Return what stands in each code block. Raises UnusableRewritingError if one is not closed."""
    blocks: list[str] = []
    fence, inside = "", list[str]()
    for line in text.split("\n"):
        bare = line.strip()
        if not fence:
            opening = _FENCE.fullmatch(bare)
            fence, inside = opening[1] if opening else "", []
        elif bare.startswith(fence) and not bare.strip("`"):
            blocks.append("\n".join(inside))
            fence = ""
        else:
            inside.append(line)
    _require(not fence, "A code block of the solution is not closed.")
    return blocks
