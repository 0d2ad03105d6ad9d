"""Extract the code from a completion: one function for each rule. The route names the rule that found it."""

from collections.abc import Callable
from dataclasses import dataclass

from rwkv_data.graders.extract import after_thinking

FENCE = "```"


@dataclass(frozen=True, slots=True)
class ExtractedCode:
    """Code, and the rule that found it."""

    code: str
    route: str


ExtractionRule = Callable[[str], ExtractedCode | None]


def continuation(text: str) -> ExtractedCode | None:
    """Return the whole text: the prompt ends in the middle of a function, and the text goes on (HumanEval)."""
    return ExtractedCode(text, "continuation") if text.strip() else None


def before_fence(text: str) -> ExtractedCode | None:
    """Return what precedes the first fence: the prompt has opened one (MBPP of rwkv-skills), and the text closes it."""
    kept = []
    for line in text.split("\n"):
        before, fence, _ = line.partition(FENCE)
        kept.append(before)
        if fence:
            return _found("\n".join(kept), "before-fence")
    return _found(text, "unfenced")


def last_fenced(text: str) -> ExtractedCode | None:
    """Return the last fenced block; a block that the text does not close ends with the text (SkyThought: APPS,
    TACO)."""
    block: list[str] | None = None
    closed = ""
    for line in text.split("\n"):
        if line.lstrip().startswith(FENCE):
            if block is not None:
                closed = "\n".join(block)
            block = [] if block is None else None
        elif block is not None:
            block.append(line)
    if block is not None and "\n".join(block).strip():
        return ExtractedCode("\n".join(block), "open-fence")
    return _found(closed, "last-fence")


def last_fenced_answer(text: str) -> ExtractedCode | None:
    """Return the last fenced block of what follows the thoughts."""
    return last_fenced(after_thinking(text))


def between_last_fences(text: str) -> ExtractedCode | None:
    """Return what stands between the last two lines that hold a fence (LiveCodeBench, extraction_utils.py)."""
    lines = text.split("\n")
    fences = [number for number, line in enumerate(lines) if FENCE in line]
    if len(fences) < 2:
        return None
    return _found("\n".join(lines[fences[-2] + 1 : fences[-1]]), "between-fences")


def _found(code: str, route: str) -> ExtractedCode | None:
    return ExtractedCode(code, route) if code.strip() else None
