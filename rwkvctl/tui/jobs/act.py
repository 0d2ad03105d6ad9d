"""One change of jobs, as a request and as the command that does the same."""

from typing import NamedTuple

import msgspec

from rwkvctl.text.shell_words import as_typed


class Act(NamedTuple):
    """A request that changes jobs, and the words of the command that does the same."""

    words: tuple[str, ...]
    request: msgspec.Struct

    @property
    def line(self) -> str:
        """Return the command line as typed in a shell."""
        return as_typed(("rwkvctl", *self.words))
