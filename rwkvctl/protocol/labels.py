"""Labels of prepared rows: made of graded samples, or given by the writer."""

from msgspec import Struct

from rwkvctl.protocol.ranges import Number
from rwkvctl.protocol.replies import Reply
from rwkvctl.protocol.states import Action, Reason
from rwkvctl.protocol.views import PaidView


class LabelRequest(Struct, frozen=True, kw_only=True):
    """`POST /v1/labels`: label the rows of a benchmark with how difficult they are, by the share of right samples in
    finished jobs. `field`: what the labels are called; a set of that name and another content stays beside them."""

    benchmark: str
    jobs: tuple[str, ...]
    field: str


class LabellingRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/labellings`: have the writer label rows of a benchmark by a rule, as a job. `settings` are `rows` and
    `where`, which pick rows as those of a dispatch do, `limit` the most that are asked, `field` what the labels are
    called (empty: what the rule calls them). `check`: say what that would be, and change nothing."""

    benchmark: str
    rule: str
    field: str = ""
    settings: dict[str, str] = {}
    limit: Number | None = None
    check: bool = False
    request_id: str = ""


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


class LabellingReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.labelling/1"):
    """What became of a labelling of `rows` rows, or would: it is queued (`job`), or was there already. `labels`: the
    labels of one that is done, which are the newest of their field now. `paid`: what its calls cost, if no row was
    asked before; null without a writer, or if nothing would be asked."""

    benchmark: str
    rule: str
    field: str
    rows: int
    action: Action
    reason: Reason
    detail: str = ""
    job: str = ""
    labels: str = ""
    paid: PaidView | None = None
