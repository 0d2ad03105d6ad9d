"""One stage of a kind: a prompt, and either sampling or choices."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from msgspec.structs import asdict

from rwkvctl.protocol.engine import Sampling, SplitRule, Stops

Row: TypeAlias = Mapping[str, Any]
Mode = Literal["generate", "choose"]

_GREEDY = Sampling()
_END_OF_TEXT = Stops()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One request to the engine. The first stage's prompt is whole; a later one's is the tail that is appended to
    what came before (prompt and generated ids without the stop). `choices` belongs to the mode "choose": the
    continuations whose log-likelihoods are wanted, cut from the prompt by the rule `split`. `whole` says of a text
    that ran to its limit whether its answer is complete all the same. `user` is what the user says, where the prompt is
    one turn of a conversation and begins no answer: it is what a model behind a chat API is sent."""

    name: str
    mode: Mode
    prompt: Callable[[Row], str]
    sampling: Sampling = _GREEDY
    stops: Stops = _END_OF_TEXT
    choices: Callable[[Row], tuple[str, ...]] | None = None
    split: SplitRule = "longest-common-prefix"
    whole: Callable[[str], bool] | None = None
    user: Callable[[Row], str] | None = None

    def configuration(self) -> dict[str, Any]:
        """Return everything but the prompt that decides what is generated, as plain JSON values."""
        plain: dict[str, Any] = {"name": self.name, "mode": self.mode}
        if self.mode == "generate":
            plain |= {"sampling": _plain(self.sampling), "stops": _plain(self.stops)}
        elif self.split != "longest-common-prefix":
            plain["split"] = self.split
        return plain


def _plain(struct: Sampling | Stops) -> dict[str, Any]:
    """Return all fields, defaults too, so that a key does not depend on which values are defaults."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(struct).items()}
