r"""Rows as RWKV's chat form: {"text": "User: ...\n\nAssistant: ..."}, a system text before them as "System: ...".

A blank line ends a turn, so no turn may hold one: every run of blank lines becomes one line end, whether \n, \r\n or \r
ends the lines and whatever blanks (tabs, vertical tabs, U+3000, U+2028 ...) are all that stands in them. Blanks before
and after a turn are left out, because the World vocabulary has tokens that join them with what stands beside: " \n\n"
and "\n\n\n" would take the place of token 261, "\n\n", which ends a turn, and "\n\n " would begin the next.

One case is left: "。", "，" and "…" form one token with a line end behind them, so token 261 seldom follows a turn that
ends with one of these. Only another text would change that.

What is written can be read in one way only. A tag inside a turn ("User:" after a blank line) stands after a single line
end, and the tag that begins a turn is the first: a turn that itself begins with "User:" is read with it.
"""

import re
from typing import Final

from rwkv_data.recipes.files.training_row import TrainingRow

TAGS: Final = {"system": "System", "user": "User", "assistant": "Assistant"}
_LINE_END: Final = re.compile(r"\r\n?")
_BLANK_LINES: Final = re.compile(r"\n(?:[^\S\n]*\n)+")


def rwkv_row(row: TrainingRow) -> dict[str, str]:
    """Return a row with one answer. A system text of blanks alone is left out."""
    said = [("system", row.system), *((turn.role, turn.text) for turn in row.turns)]
    texts = ((TAGS[role], turn_text(text)) for role, text in said)
    return {"text": "\n\n".join(f"{tag}: {text}" for tag, text in texts if text)}


def turn_text(text: str) -> str:
    """Return a turn without blank lines and without blanks around it; the other lines keep their indentation."""
    return _BLANK_LINES.sub("\n", _LINE_END.sub("\n", text)).strip()
