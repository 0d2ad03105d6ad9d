"""Labels of prepared rows that are made of graded samples."""

from msgspec import Struct

from rwkvctl.protocol.replies import Reply


class LabelRequest(Struct, frozen=True, kw_only=True):
    """`POST /v1/labels`: label the rows of a benchmark with how difficult they are, by the share of right samples in
    finished jobs. `field`: what the labels are called; a set of that name and another content stays beside them."""

    benchmark: str
    jobs: tuple[str, ...]
    field: str


class LabelReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.labels/1"):
    """Labels that were made. `name`: the field with its version, as a job's `where` is stored; of `rows` rows
    `labelled` have a value, `unlabelled` counts the others by the reason; `lowest` and `highest` of numbers."""

    name: str
    field: str
    benchmark: str
    kind: str
    rule: str
    source: str
    rows: int
    labelled: int
    unlabelled: dict[str, int]
    lowest: float | None = None
    highest: float | None = None
