"""Baselines: scores that others have measured, and which model each model's scores are compared with."""

from typing import Literal

from msgspec import Struct

from rwkvctl.protocol.ranges import Number, Reading
from rwkvctl.protocol.replies import Reply

Program = Literal["lm_eval", "csv"]


class GivenScore(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A number that another program has measured: a metric over `n` rows of a benchmark, asked in one of our kinds.
    `shots`: how many examples stood before each question, if that is known; `place`: where it stands in its file, for
    messages."""

    benchmark: str = ""
    kind: str = ""
    metric: str = ""
    value: Reading = 0.0
    n: Number = 0
    shots: Number | None = None
    place: str = ""


class BaselinesRequest(Struct, frozen=True, kw_only=True):
    """`GET /v1/baselines`: the pinned baselines, and the models whose scores were given."""


class BaselineAdd(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/baselines`: store scores as those of a model called `baseline`. They have no samples, so they are
    compared unpaired. All are stored, or, if one of them cannot be, none. `source`: the file that they are from;
    `check`: only say what would be stored."""

    baseline: str
    program: Program
    source: str
    sha256: str
    scores: tuple[GivenScore, ...] = ()
    check: bool = False
    request_id: str = ""


class BaselinePin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/baselines/pin`: compare the scores of models whose names match a pattern with those of `model`; without
    a model the pattern's pin is removed. Of several patterns that match, the most particular one counts."""

    pattern: str = "*"
    model: str = ""
    request_id: str = ""


class PinView(Struct, frozen=True, kw_only=True):
    """The baseline of all models whose names match a pattern. `scored`: it still has a score; otherwise the pin is not
    used."""

    pattern: str
    model: str
    who: str
    created: str
    scored: bool = True


class GivenModelView(Struct, frozen=True, kw_only=True):
    """A model whose scores were given: how many there are, the programs that measured them, and when the last was
    stored."""

    model: str
    scores: int
    programs: tuple[str, ...]
    added: str


class GivenScoreView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of the given metrics of one benchmark and kind: they were `added` as a job, or would be; or the same
    numbers were there already. `note`: why none of our scores can be compared with it."""

    outcome: Literal["added", "would-add", "there"]
    benchmark: str
    kind: str
    job: str = ""
    n: int = 0
    metrics: dict[str, float] = {}
    note: str = ""


class BaselinesReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.baselines/1"):
    """The pinned baselines, the most particular patterns first, and the models whose scores were given."""

    pins: tuple[PinView, ...] = ()
    items: tuple[GivenModelView, ...] = ()


class BaselineReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.baseline/1"):
    """The scores of one model that were given; `session` holds those that were added."""

    model: str
    items: tuple[GivenScoreView, ...] = ()
    session: str = ""
