"""Split the text that a chat generates into thought and answer while it is generated."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from rwkv_engine.openai.templates import Phase, RenderedPrompt

CLOSING: Final = "</think>"


class SplitText(NamedTuple):
    """The parts of a piece of text that belong to the thought and to the answer."""

    thought: str
    answer: str


@dataclass(slots=True)
class ThoughtSplitter:
    """Takes text in pieces of any size; the result does not depend on how it was cut.

    Templates leave the `>` of a tag for the model to write, and the blanks after a tag or `Assistant:` belong to the
    template: both are dropped. A verbatim text is passed through unchanged.
    """

    phase: Phase
    tag: bool
    _blank: bool = True
    _held: str = ""

    @classmethod
    def after(cls, prompt: RenderedPrompt) -> "ThoughtSplitter":
        """Return the splitter for text that follows a rendered prompt."""
        return cls(prompt.phase, prompt.text.endswith("think"))

    def feed(self, text: str, *, end: bool = False) -> SplitText:
        """Return what can be given out now; with `end`, all that is left."""
        if self.phase == "thinking":
            return self._think(self._held + self._opened(text), end=end)
        return SplitText("", text if self.phase == "verbatim" else self._opened(text))

    def _think(self, text: str, *, end: bool) -> SplitText:
        thought, closed, rest = text.partition(CLOSING)
        if closed:
            self.phase, self._blank, self._held = "answering", True, ""
            return SplitText(thought, self._opened(rest))
        place = len(thought) if end else len(thought) - overlap(thought, CLOSING)
        self._held = thought[place:]
        return SplitText(thought[:place], "")

    def _opened(self, text: str) -> str:
        """Return the text without what belongs to the template before it."""
        if self.tag and text:
            self.tag, text = False, text.removeprefix(">")
        if self._blank:
            text = text.lstrip()
            self._blank = not text
        return text


def overlap(text: str, mark: str) -> int:
    """Return how many characters at the end of a text may be the beginning of a mark."""
    return next((k for k in range(min(len(text), len(mark) - 1), 0, -1) if text.endswith(mark[:k])), 0)
