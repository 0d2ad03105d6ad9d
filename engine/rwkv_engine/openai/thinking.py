"""What a chat's model writes, split into its thought and its answer while it comes."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from rwkv_engine.openai.templates import Phase, Rendered

CLOSING: Final = "</think>"


class Said(NamedTuple):
    """A piece of each."""

    thought: str
    answer: str


@dataclass(slots=True)
class Splitter:
    """Takes text in pieces of any size and gives the same whole for each cutting.

    Templates leave the `>` of a tag for the model to write, and the blanks after a tag or `Assistant:` belong to the
    template: both are dropped. A verbatim text is not looked at.
    """

    phase: Phase
    tag: bool
    _blank: bool = True
    _held: str = ""

    @classmethod
    def after(cls, prompt: Rendered) -> "Splitter":
        """For what follows a prompt."""
        return cls(prompt.phase, prompt.text.endswith("think"))

    def feed(self, text: str, *, end: bool = False) -> Said:
        """What can be given out now; with `end`, all of it."""
        if self.phase == "thinking":
            return self._think(self._held + self._opened(text), end=end)
        return Said("", text if self.phase == "verbatim" else self._opened(text))

    def _think(self, text: str, *, end: bool) -> Said:
        thought, closed, rest = text.partition(CLOSING)
        if closed:
            self.phase, self._blank, self._held = "answering", True, ""
            return Said(thought, self._opened(rest))
        place = len(thought) if end else len(thought) - overlap(thought, CLOSING)
        self._held = thought[place:]
        return Said(thought[:place], "")

    def _opened(self, text: str) -> str:
        """Without what belongs to the template before it."""
        if self.tag and text:
            self.tag, text = False, text.removeprefix(">")
        if self._blank:
            text = text.lstrip()
            self._blank = not text
        return text


def overlap(text: str, mark: str) -> int:
    """How many characters at the end of a text may be the beginning of a mark."""
    return next((k for k in range(min(len(text), len(mark) - 1), 0, -1) if text.endswith(mark[:k])), 0)
