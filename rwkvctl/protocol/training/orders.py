"""Orders of the rows of a benchmark, easiest first: made of finished jobs, and given as a file of row ids."""

from typing import Final

from msgspec import Struct

from rwkvctl.protocol.ranges import Reading
from rwkvctl.protocol.replies import Reply

BY_RATE: Final = "pass-rate"
"""What rows are ordered by, unless it is a field of them: the share of right samples among those with a verdict."""


class OrderRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/orders/of-jobs`: the rows that finished jobs asked, by their pass-rate, the highest first, or by a
    field or labels that hold numbers, the lowest first. `low` and `high`: only rows for which that is from one to the
    other."""

    jobs: tuple[str, ...]
    by: str = BY_RATE
    low: Reading | None = None
    high: Reading | None = None


class OrderUpload(Struct, frozen=True, kw_only=True):
    """`POST /v1/orders`: keep an order of a benchmark's rows, as labels. `lines`: a row each, the first to be asked
    first."""

    benchmark: str
    lines: tuple[str, ...]


class OrderedJob(Struct, frozen=True, kw_only=True):
    """A job whose samples were counted, with the key of the grades that counted."""

    id: str
    model: str
    kind: str
    repeats: int
    grade_key: str


class OrderedRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row by its id: of `n` samples with a verdict `right` are right. `pass_rate` is null without a verdict, `value`
    that of the field by which rows are ordered."""

    id: str
    pass_rate: float | None
    right: int
    n: int
    value: float | None = None


class OrderReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.order/1"):
    """The rows in their order; rows that are equally easy stand in the order of their ids. Of the `asked` rows of the
    jobs, `left_out` counts those that are not there, by the reason. `by` names labels with their version."""

    benchmark: str
    rows_sha256: str
    by: str
    low: float | None
    high: float | None
    jobs: tuple[OrderedJob, ...]
    asked: int
    left_out: dict[str, int]
    rows: tuple[OrderedRow, ...]
