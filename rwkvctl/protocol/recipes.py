"""Recipes of training data: checking one, running it, what it makes, and whether its rows' grades still stand."""

from typing import Literal

from msgspec import Raw, Struct

from rwkvctl.protocol.ranges import Count, Number
from rwkvctl.protocol.replies import Reply
from rwkvctl.protocol.states import Action, Reason, RecipeState
from rwkvctl.protocol.views import PaidView, PlanRow


class RecipeCheck(Struct, frozen=True, kw_only=True):
    """`POST /v1/recipes/check`: what a recipe (its file, TOML) would sample, and what is there of it. Nothing is
    changed."""

    toml: str


class RecipeRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/recipes`: queue what a recipe samples, and make its rows once all of it is graded. `name`: that of its
    file."""

    toml: str
    name: str = ""
    request_id: str = ""


class RecipesRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/recipes`: one page, newest first, of those before number `before` (a cursor from `next`)."""

    limit: Count = 100
    before: Number = 0


class RecipeRequest(Struct, frozen=True, kw_only=True):
    """`GET /v1/recipes/{recipe}`: one recipe with its file and its card."""

    recipe: str


class RecipeChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/recipes/change`: pause a recipe with the jobs that it alone waits for, stop it (its jobs go on), take
    up one that was paused or stopped or has failed, or delete it with its rows."""

    recipe: str
    action: Literal["pause", "stop", "resume", "delete"]
    request_id: str = ""


class RecipeRowsRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`GET /v1/recipes/{recipe}/rows`: the training rows from number `first` on, counted from 0; `dropped`: instead the
    problems that were dropped in cleaning, with the reason of each."""

    recipe: str
    dropped: bool = False
    first: Number = 0
    limit: Count = 100


class RewriteRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`POST /v1/rewrite`: have the writer rewrite the right samples of finished jobs by a rule, or split them into
    thoughts, each job as a job of its own. `check`: say what that would be, and change nothing."""

    jobs: tuple[str, ...]
    rule: str
    check: bool = False
    request_id: str = ""


class RewriteView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a job (`source`), or would: its rewriting is queued (`job`) or was there already. `right` of its
    `samples` are rewritten: all that are right, or of each problem the one that is split. `error`: why it cannot be
    rewritten."""

    source: str
    action: Action | Literal[""] = ""
    reason: Reason | Literal[""] = ""
    detail: str = ""
    job: str = ""
    right: int = 0
    samples: int = 0
    error: str = ""


class SampleGrade(Struct, frozen=True):
    """A sample by its job, its row and its repeat there, and a key under which it was graded."""

    job: Number
    row: Number
    repeat: Number
    grade_key: str


class VerdictsRequest(Struct, frozen=True, kw_only=True):
    """`POST /v1/verdicts`: what the grades of samples are, at most `MOST_VERDICTS` of them."""

    samples: tuple[SampleGrade, ...]


MOST_VERDICTS = 1000


class FunnelStageView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stage of a recipe's funnel: how many of a unit came in and went out, and why the others did not."""

    name: str
    unit: str
    rows_in: int
    rows_out: int
    dropped: dict[str, int] = {}


class RecipeSourceView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job whose samples a recipe uses. `right`: how many are right so far. `rewrites`: the job whose right samples it
    rewrites; empty if it samples. `variants`: it makes shorter variants of them instead, three a problem."""

    job: str
    model: str
    benchmark: str
    kind: str
    state: str
    samples: int
    done: int
    right: float
    grade_key: str = ""
    rewrites: str = ""
    variants: bool = False


PartState = RecipeState | Literal["kept", "missing"]


class MixPartView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows that a recipe mixes: those of another recipe (`name` is r3), or those that `data rows` keeps. `state`: that
    of the recipe; kept; or missing. `rows`: how many there are; `pairs`: whether each has two answers; null while that
    is not known. They are taken in proportion to `weight`, or at most `limit` of them, or all. `problem`: why they
    cannot be mixed."""

    name: str
    state: PartState
    rows: int = 0
    pairs: bool | None = None
    weight: float | None = None
    limit: int | None = None
    problem: str = ""


class RecipePaymentView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the jobs of a recipe have paid for replies so far, unusable ones included: to a model behind an endpoint
    (`writer`, `qwq`), `judge` or `checker`. A reply that jobs share was paid by one of them. `cost` is null where no
    price is set; `budget_left` and `tokens_left` are of all that may be paid to it, null without such a budget. `keys`:
    with how many API keys it can be asked; null if it is not configured any more."""

    to: str
    tokens: int
    cost: float | None = None
    budget_left: float | None = None
    tokens_left: int | None = None
    keys: int | None = None


class RecipeView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A recipe. `rows`: the training rows that it has made; `jobs`: those whose samples it uses, or `mixes`: whose rows
    it mixes. `sources` and `parts` say more of them, `paid` what was paid for their replies, `toml` is its file, and
    `card` what stands beside an exported file: all of a single recipe only."""

    recipe: str
    name: str
    state: RecipeState
    detail: str = ""
    rows: int = 0
    funnel: tuple[FunnelStageView, ...] = ()
    jobs: tuple[str, ...] = ()
    mixes: tuple[str, ...] = ()
    sources: tuple[RecipeSourceView, ...] = ()
    parts: tuple[MixPartView, ...] = ()
    paid: tuple[RecipePaymentView, ...] = ()
    created: str
    finished: str = ""
    toml: str = ""
    card: dict[str, object] = {}


class RecipePlanReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.recipe-plan/1"):
    """What a recipe would do. `plan`: the pairs that its tables of samples select; `sources`: the jobs that are there;
    `parts`: the rows that it would mix, and `most_rows` how many if none is dropped in cleaning; 0 while a part is not
    there. `problems`: sentences, because of which it is refused. `not_checked`: the benchmarks with which its rows
    would not be compared, because their rows are not prepared. `eta_s`: when all that is to be sampled will be done;
    null while `not_estimated` jobs have no history."""

    plan: tuple[PlanRow, ...] = ()
    sources: tuple[RecipeSourceView, ...] = ()
    parts: tuple[MixPartView, ...] = ()
    most_rows: int = 0
    paid: tuple[PaidView, ...] = ()
    problems: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    eta_s: float | None = None
    not_estimated: int = 0


class RecipeReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.recipe/1"):
    """One recipe: as it is, or as it is after a change; after a deletion as it was."""

    recipe: RecipeView


class RecipesReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.recipes/1"):
    """One page of recipes; `next` is the cursor of the page after it, 0 at the end."""

    items: tuple[RecipeView, ...]
    next: int = 0


class RecipeRowsReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.recipe-rows/1"):
    """Training rows, each with `turns`, `chosen` and `rejected` if it is a pair, and its `lineage`; or dropped
    problems. `next` is the number of the one after them, -1 at the end."""

    items: tuple[Raw, ...]
    next: int = -1


class VerdictsReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.verdicts/1"):
    """Whether each sample is right; null where there is no such sample, or no verdict of that key."""

    right: tuple[bool | None, ...]


class RewriteReply(Reply, frozen=True, kw_only=True, tag="rwkvctl.rewrite/1"):
    """The rewriting of each job that was named. `paid`: what its calls cost at most; null without a writer, or if
    nothing would be asked."""

    items: tuple[RewriteView, ...]
    paid: PaidView | None = None
