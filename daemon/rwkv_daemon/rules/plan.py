"""Models x benchmarks minus what is done: the plan that `queue` shows and `dispatch` carries out. Pure.

Both call `make_plan` with the same facts, so they cannot disagree; every pair gets exactly one action and one reason.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatch
from itertools import accumulate
from typing import Final, TypeVar

from msgspec import structs

from rwkv_daemon.rules.work_keys import WorkIdentity, digest, generation_key, grade_key
from rwkvctl.protocol.endpoints import PREFIX as ENDPOINT
from rwkvctl.protocol.endpoints import Api
from rwkvctl.protocol.model_names import is_shown_as
from rwkvctl.protocol.numerics import NUMERICS
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.states import REASONS, Action, Reason
from rwkvctl.protocol.views import PlanRow

EARLY = {"mmlu", "mmlu_pro", "gsm8k", "math_500", "human_eval", "mbpp", "livecodebench", "ifeval", "ceval"}
"""Well-known benchmarks, which go to the front of the queue (rwkv-skills' order)."""
SEARCH: Final = "param_search"
"""Domain of the kinds that search for settings."""
Matching = Callable[[Sequence[str], Sequence[str]], Collection[str]]
Offered = TypeVar("Offered", bound="OfferedKind")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFact:
    """A checkpoint as the planner sees it. `order` sorts data versions naturally; `sha256` is empty until hashed, which
    waits while it is `copying`; `inodes` identify its files, if it was named by path.

    A model behind an endpoint has an `api`, its identity as `sha256`, and `endpoint:NAME` as its path. `logprobs` says
    whether it gives the log-probabilities of a prompt: None while that is not known, else empty, or why it does not.
    """

    name: str
    path: str
    sha256: str
    architecture: str = ""
    parameters_b: float | None = None
    order: tuple[object, ...] = ()
    builtin: bool = False
    broken: str = ""
    copying: bool = False
    inodes: str = ""
    api: Api | None = None
    logprobs: str | None = None

    @property
    def named_only(self) -> bool:
        """Whether it is measured only if it is named: it costs money, or it is there for trying things out."""
        return self.builtin or self.api is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedKind:
    """One way to ask a benchmark, as far as a selection looks at it. `instead`: the kind of the same prompts that is
    meant if neither is named. `training`: it runs only if its benchmark is named."""

    benchmark: str
    kind: str
    domain: str
    profile: str = ""
    default: bool = True
    builtin: bool = False
    training: bool = False
    instead: str = ""

    @property
    def job(self) -> str:
        """Name of the kind up to the first dot, without its profile."""
        return self.kind.partition(".")[0]

    @property
    def searches(self) -> bool:
        """Whether it searches for settings instead of measuring."""
        return self.domain == SEARCH


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFact(OfferedKind):
    """A kind with the settings of this selection applied. `asked_as`: the kind whose completions serve this one, which
    differs in its grader alone (empty: its own). `rows_problem`: why prepared rows are not those that its settings
    mean. `takes_chat`, `chooses`: as `rwkv_data.definition.kind` says. `harness`: the outside harness that asks it,
    which alone knows its rows."""

    benchmark_version: int
    configuration: dict[str, object]
    repeats: int
    grader: str
    grader_version: str
    rows: int | None
    rows_sha256: str
    rows_problem: str = ""
    chain_of_thought: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    grading: Mapping[str, object] = field(default_factory=dict)
    judged: bool = False
    asked_as: str = ""
    takes_chat: bool = False
    chooses: bool = False
    harness: str = ""


def found_in(expressions: Sequence[str], names: Sequence[str]) -> Collection[str]:
    """Return the names in which an expression is found. That may take for ever: see
    `rwkv_daemon.catalogue.regex_guard`."""
    for expression in expressions:
        try:
            re.compile(expression)
        except re.error as error:
            raise no_expression(expression, str(error)) from error
    return [name for name in names if any(re.search(one, name) for one in expressions)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything a plan depends on besides the selection. `kinds`: those that the selection means. `scored` and
    `open_jobs` are keyed by grade key, `generated` (kind -> job, if it is complete) by generation key. `used`:
    whether any job has a generation key. `for_model` applies a model's own settings to a kind; `fits` says why a
    model is too large for every lease; `judge` names the judge's models, empty if there is none; `matching` returns
    the names in which an expression is found; `searched` the models, of those selected, that kinds which search for
    settings are asked of."""

    models: tuple[ModelFact, ...]
    kinds: tuple[KindFact, ...]
    numerics: str
    scored: Callable[[str], str] = field(default=lambda _key: "")
    generated: Callable[[str], dict[str, str]] = field(default=lambda _key: {})
    used: Callable[[str], bool] = field(default=lambda _key: False)
    open_jobs: Callable[[str, str, str, str], tuple[str, Action, Reason, str] | None] = field(
        default=lambda _model, _benchmark, _kind, _key: None
    )
    disk_low: bool = False
    fits: Callable[[ModelFact], str] = field(default=lambda _model: "")
    for_model: Callable[[ModelFact, KindFact], KindFact] = field(default=lambda _model, kind: kind)
    judge: str = ""
    matching: Matching = found_in
    searched: Callable[[Sequence[ModelFact]], Sequence[ModelFact]] = field(default=lambda models: models)

    def numerics_of(self, model: ModelFact) -> str:
        """Return what a model is asked by: the numerics profile of an engine, or the API of an endpoint."""
        return model.api or self.numerics


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One row of the plan with what a dispatch needs to queue it. `generates`: False if another job's completions are
    graded."""

    row: PlanRow
    model: ModelFact
    kind: KindFact
    work: WorkIdentity
    generation_key: str
    grade_key: str
    generates: bool = True


class SelectionError(Exception):
    """A flag names something that does not exist, or is invalid; the message says which."""


class NoModelError(SelectionError):
    """No checkpoint of the node passes the filters; the message names similar ones."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Pairs in dispatch order, and a hash that changes when what would be done changes."""

    pairs: tuple[Pair, ...]
    models: int
    benchmarks: int

    @property
    def hash(self) -> str:
        """Return a hash over (generation key, benchmark, kind, action, reason); with the model's name if a key is not
        known yet."""
        return digest(
            sorted(
                (p.generation_key or p.model.name, p.kind.benchmark, p.kind.kind, p.row.action, p.row.reason)
                for p in self.pairs
            )
        )[:12]


@dataclass(frozen=True, slots=True)
class Grid:
    """Every pair of a plan by its place in dispatch order: each kind on all models, or if it searches for settings on
    those that are `searched`, then the next kind."""

    models: tuple[ModelFact, ...]
    kinds: tuple[KindFact, ...]
    searched: tuple[ModelFact, ...]
    ends: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        ends = accumulate(len(self.models_of(kind)) for kind in self.kinds)
        object.__setattr__(self, "ends", tuple(ends))

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def models_of(self, kind: KindFact) -> tuple[ModelFact, ...]:
        """Return the models on which a kind is planned."""
        return self.searched if kind.searches else self.models

    def start(self, kind: int) -> int:
        """Return the place of a kind's first pair, by the number of the kind."""
        return self.ends[kind - 1] if kind else 0

    def at(self, place: int) -> tuple[ModelFact, KindFact]:
        """Return the (model, kind) at a place in dispatch order."""
        number = bisect_right(self.ends, place)
        kind = self.kinds[number]
        return self.models_of(kind)[place - self.start(number)], kind

    def before(self, places: range) -> list[int]:
        """Return earlier places whose pairs may be the same work as one of these: of the same weights, and of a kind of
        the same benchmark."""
        shown = [self.at(place) for place in places]
        benchmarks = {kind.benchmark for _, kind in shown}
        weights = {model.sha256 for model, _ in shown if model.sha256}
        found: list[int] = []
        for number, kind in enumerate(self.kinds):
            if kind.benchmark in benchmarks and (start := self.start(number)) < places.start:
                same = (place for place, model in enumerate(self.models_of(kind), start) if model.sha256 in weights)
                found += [place for place in same if place < places.start]
        return found


def grid(selection: Selection, facts: Facts) -> Grid:
    """Return the pairs of a selection. Raises SelectionError for an invalid flag."""
    check_numbers(selection)
    models = select_models(selection, facts.models, facts.matching)
    return Grid(tuple(models), tuple(sort_kinds(selection, facts.kinds)), tuple(facts.searched(models)))


def make_plan(selection: Selection, facts: Facts) -> Plan:
    """Return the plan. Raises SelectionError for an invalid flag."""
    every, twins = grid(selection, facts), Twins()
    pairs = (planned_at(selection, facts, every, place) for place in range(len(every)))
    return plan_of(every, [twins.settled(pair) for pair in pairs])


def planned_at(selection: Selection, facts: Facts, every: Grid, place: int) -> Pair:
    """Return the pair at a place, by itself."""
    model, kind = every.at(place)
    return plan_pair(selection, facts, model, facts.for_model(model, kind))


def plan_of(every: Grid, pairs: Iterable[Pair]) -> Plan:
    """Return a plan of the pairs; its numbers of models and benchmarks are those of the whole grid."""
    return Plan(tuple(pairs), len(every.models), len({kind.benchmark for kind in every.kinds}))


def check_numbers(selection: Selection) -> None:
    """Check numbers and words that a flag's own type cannot check. Raises SelectionError."""
    if selection.limit is not None and not 1 <= selection.limit < 2**62:
        raise SelectionError(f"--limit must be from 1 to 2^62, not {selection.limit}.")
    if selection.seed is not None and not 0 <= selection.seed < 2**63:
        raise SelectionError(f"--seed must be from 0 to 2^63 - 1, not {selection.seed}.")
    if abs(selection.priority) > 1_000_000:
        raise SelectionError(f"--priority must be within a million, not {selection.priority}.")
    if selection.numerics not in {"", "auto", *NUMERICS}:
        raise SelectionError(f"--numerics must be one of auto, {', '.join(NUMERICS)}, not {selection.numerics!r}.")


@dataclass(slots=True)
class Twins:
    """Pairs with equal keys: a copy of a checkpoint file is the same model, so of pairs with one key only the first
    runs. Of pairs that differ in their grader alone only the first generates."""

    first: dict[str, str] = field(default_factory=dict)
    generates: dict[str, str] = field(default_factory=dict)

    def settled(self, pair: Pair) -> Pair:
        """Return the next pair, given those before."""
        if pair.row.action == "run" and pair.grade_key in self.first:
            detail = f"{self.first[pair.grade_key]} is the same checkpoint, byte for byte"
            return replace(pair, row=structs.replace(pair.row, action="skip", reason="queued", detail=detail))
        self.first.setdefault(pair.grade_key, pair.model.name)
        whose = ""
        if pair.row.action == "run" and pair.generates and pair.generation_key:
            whose = self.generates.get(pair.generation_key, "")
            self.generates.setdefault(pair.generation_key, f"{pair.kind.kind} of this dispatch")
        return grades(pair, whose) if whose else pair


def grades(pair: Pair, whose: str) -> Pair:
    """Return the pair as one that generates nothing."""
    detail = f"grades the completions of {whose}; nothing is generated"
    return replace(pair, row=structs.replace(pair.row, detail=detail), generates=False)


def select_models(selection: Selection, models: Iterable[ModelFact], matching: Matching = found_in) -> list[ModelFact]:
    """Select models by glob or name, by expression, by size, then by the selection mode, in natural order."""
    models = list(models)
    names = [model.name for model in models]
    chosen = wanted_models(selection.models, models)
    if selection.model_regex:
        named = matching(selection.model_regex, [m.name for m in chosen])
        chosen = [m for m in chosen if m.name in named]
    chosen = [m for m in chosen if fits_size(m, selection.min_param_b, selection.max_param_b)]
    chosen = MODES[selection.model_select](chosen)
    if not chosen and (selection.models or selection.model_regex):
        wanted = " ".join(selection.models + selection.model_regex)
        raise NoModelError(f"No model matches {wanted}{near(wanted, names)}; see `rwkvctl models`.")
    return sorted(chosen, key=lambda m: (m.order, m.name))


def near(word: str, known: Iterable[str]) -> str:
    """Return ` (near it: gsm8k, gsm_plus)`, or nothing if no name is similar."""
    plain = {name.lower(): name for name in known}
    found = get_close_matches(word.lower().strip("*?").removesuffix(".pth"), plain, 3, 0.5)
    return f" (near it: {', '.join(plain[name] for name in found)})" if found else ""


def wanted_models(globs: tuple[str, ...], models: Sequence[ModelFact]) -> list[ModelFact]:
    """Select models by glob. Without globs: every checkpoint but the built-in one, which, like models behind endpoints,
    runs only when it is named. Raises NoModelError for a glob that matches none, SelectionError for a name that both a
    checkpoint and an endpoint have."""
    if not globs:
        return [model for model in models if not model.named_only]
    paths: set[str] = set()
    for glob in globs:
        found = [model for model in models if matches(model, glob)] or shown_as(glob, models)
        if not found:
            known = near(glob, [model.name for model in models])
            raise NoModelError(f"--models: no model matches {glob}{known}; see `rwkvctl models`.")
        if any(model.api for model in found) and not all(model.api for model in found):
            raise SelectionError(
                f"--models: {glob} is the name of a checkpoint and of an endpoint, and their scores could not be told "
                "apart; rename the table of the endpoint in config.toml."
            )
        paths |= {model.path for model in found}
    return [model for model in models if model.path in paths]


def matches(model: ModelFact, glob: str) -> bool:
    """Whether a glob names the model, its file, or its path. `builtin` names the built-in checkpoint and nothing else;
    a model behind an endpoint is named by its whole name, or by a glob that begins with `endpoint:`."""
    if model.builtin:
        return glob == "builtin"
    if model.api:
        return glob == model.name or (glob.startswith(ENDPOINT) and fnmatch(model.path, glob))
    file = model.path.rpartition("/")[2]
    texts = (model.name, file, model.path)
    return glob in texts or any(fnmatch(text, glob) for text in texts) or fnmatch(model.path, f"*/{glob}")


def shown_as(word: str, models: Iterable[ModelFact]) -> list[ModelFact]:
    """Return the models that lists shorten to this word."""
    return [model for model in models if not model.named_only and is_shown_as(model.name, word)]


def no_expression(expression: str, why: str) -> SelectionError:
    """Return the error for an invalid expression."""
    return SelectionError(f"--model-regex {expression!r} is not a valid expression: {why}.")


def fits_size(model: ModelFact, least: float | None, most: float | None) -> bool:
    """Whether a model's size is within the bounds. One of unknown size passes a lower bound and fails an upper one, as
    in rwkv-skills."""
    if model.parameters_b is None:
        return most is None
    return (least is None or model.parameters_b >= least) and (most is None or model.parameters_b <= most)


def newest_data(models: list[ModelFact]) -> list[ModelFact]:
    """Keep for each (architecture, size) the model that sorts last; models whose name says no size are all kept."""
    newest: dict[tuple[str, float], ModelFact] = {}
    for model in sorted(models, key=lambda m: (m.order, m.name)):
        if model.parameters_b is not None:
            newest[model.architecture, model.parameters_b] = model
    return [m for m in models if m.parameters_b is None or newest[m.architecture, m.parameters_b] is m]


def extremes(models: list[ModelFact]) -> list[ModelFact]:
    """Keep for each size the first and the last model by data version; models of unknown size are all kept."""
    kept: list[ModelFact] = [m for m in models if m.parameters_b is None]
    for size in {m.parameters_b for m in models} - {None}:
        same = sorted((m for m in models if m.parameters_b == size), key=lambda m: (m.order, m.name))
        kept += same if len(same) <= 2 else [same[0], same[-1]]
    return kept


MODES: dict[str, Callable[[list[ModelFact]], list[ModelFact]]] = {
    "all": lambda models: models,
    "latest-data": newest_data,
    "param-extrema": extremes,
}


def select_kinds(
    selection: Selection, kinds: Iterable[Offered], suite: Container[tuple[str, str]] | None = None
) -> list[Offered]:
    """Select kinds by job kind, benchmark, domain and profile. Unless benchmarks are named: all but the built-in ones
    and training sets, each in its default kinds. The others (`free_response.lm-eval`) run when they, or their profile,
    are named. With the (benchmark, kind) of a `suite`: of these instead."""
    every = list(kinds)
    known_kinds = {name for k in every for name in (k.kind, k.job)}
    known_names, known_profiles = {k.benchmark for k in every}, {k.profile for k in every}
    known_domains = {k.domain for k in every}
    check_known("--only-jobs", selection.only_jobs, known_kinds)
    check_known("--skip-jobs", selection.skip_jobs, known_kinds)
    check_known("--job-order", selection.job_order, known_kinds)
    check_known("--domains", selection.domains, known_domains)
    check_known("--profiles", selection.profiles, known_profiles)
    only = [slug(name, known_names, "--only-datasets") for name in selection.only_datasets]
    skip = [slug(name, known_names, "--skip-datasets") for name in selection.skip_datasets]
    if suite is not None and (others := [one for one in only if not any((one, k.kind) in suite for k in every)]):
        raise SelectionError(f"--only-datasets: {', '.join(others)} is not of the suite {selection.suite}.")
    return [
        k
        for k in every
        if (is_wanted(selection, k) if suite is None else is_wanted_of(suite, selection, k))
        and not {k.kind, k.job} & set(selection.skip_jobs)
        and (not selection.domains or k.domain in selection.domains)
        and (k.benchmark in only if only else suite is not None or not (k.builtin or k.training))
        and k.benchmark not in skip
    ]


def is_wanted(selection: Selection, kind: OfferedKind) -> bool:
    """Whether a kind is selected by its full name; or by its job kind, if it is the default one or its profile is
    named."""
    if selection.profiles and kind.profile not in selection.profiles:
        return False
    if kind.kind in selection.only_jobs:
        return True
    if kind.instead and kind.instead not in selection.skip_jobs:
        return False
    if kind.searches:  # hundreds of points: only if it is named
        return not selection.only_jobs and SEARCH in selection.domains
    usual = kind.default or bool(selection.profiles)
    return usual and (not selection.only_jobs or kind.job in selection.only_jobs)


def is_wanted_of(suite: Container[tuple[str, str]], selection: Selection, kind: OfferedKind) -> bool:
    """Whether a kind is of a suite, and of the job kinds and profiles that are named beside it."""
    return (
        (kind.benchmark, kind.kind) in suite
        and (not selection.profiles or kind.profile in selection.profiles)
        and (not selection.only_jobs or not {kind.kind, kind.job}.isdisjoint(selection.only_jobs))
    )


def check_known(flag: str, given: tuple[str, ...], known: set[str]) -> None:
    if unknown := sorted(set(given) - known):
        raise SelectionError(f"{flag}: unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}.")


SPLITS = (
    "train", "test", "validation", "val", "dev", "devtest", "main", "science", "verified", "all", "text", "other",
    "human", "math", "phy", "cs", "bio", "chem", "eng",
)  # fmt: skip
ALIASES = {
    "math500": "math_500",
    "math": "hendrycks_math",
    "arc": "arc_challenge",
    "arc_c": "arc_challenge",
    "arc_e": "arc_easy",
    "input_data": "ifeval",
    "ceval_exam": "ceval",
    "minerva_math": "minerva_ocw",
    "humaneval": "human_eval",
    "humanevalplus": "human_eval_plus",
    "humaneval_plus": "human_eval_plus",
    "humanevalfix": "human_eval_fix",
    "humaneval_fix": "human_eval_fix",
    "humaneval_cn": "human_eval_cn",
    "mbppplus": "mbpp_plus",
    "lcb": "livecodebench",
    "gpqa": "gpqa_main",
    "simpleqa_verified": "simpleqa",
    "lambada_openai": "lambada",
}
"""Usual spellings of our names, without the split."""


def slug(name: str, known: set[str], flag: str) -> str:
    """Return a benchmark's canonical name from any usual spelling (`MATH-500`, `gsm8k_test`). Raises SelectionError."""
    text = re.sub(r"[^0-9a-z]+", "_", name.lower().replace("+", "_plus")).strip("_")
    stem, _, split = text.rpartition("_")
    for candidate in (text, stem) if split in SPLITS else (text,):
        for spelling in (candidate, ALIASES.get(candidate, "")):
            if spelling in known:
                return spelling
    raise SelectionError(f"{flag}: unknown {name}{near(text, known)}; known are {', '.join(sorted(known))}.")


def sort_kinds(selection: Selection, kinds: Iterable[KindFact]) -> list[KindFact]:
    """Order kinds: --job-order, then well-known benchmarks, then few samples first, direct before chain of thought."""
    ranks = {kind: rank for rank, kind in enumerate(selection.job_order)}
    last = len(ranks)

    def place(kind: KindFact) -> tuple[object, ...]:
        early = (1 if kind.chain_of_thought else 0) if kind.benchmark in EARLY else 2
        samples = (kind.rows or 10**9) * kind.repeats
        rank = ranks.get(kind.kind, ranks.get(kind.job, last))
        return (rank, early, samples, kind.chain_of_thought, kind.benchmark, kind.kind)

    return sorted(kinds, key=place)


def plan_pair(selection: Selection, facts: Facts, model: ModelFact, kind: KindFact) -> Pair:
    """Plan one model on one kind: the action, and the one reason for it."""
    work = work_of(selection, facts, model, kind)
    generation = generation_key(work)
    graded = grade_key(generation, kind.grader, kind.grader_version, kind.grading)
    action, reason, detail, job = decide(selection, facts, model, kind, generation, graded)
    rows = rows_within(selection, kind.rows)
    row = PlanRow(
        model=model.name,
        benchmark=kind.benchmark,
        kind=kind.kind,
        action=action,
        reason=reason,
        detail=detail or REASONS[reason],
        rows=rows,
        samples=None if rows is None else rows * kind.repeats,
        weights=model.path,
        numerics=facts.numerics_of(model),
        generation_key=generation,
        job=job,
    )
    pair = Pair(row=row, model=model, kind=kind, work=work, generation_key=generation, grade_key=graded)
    others = facts.generated(generation) if generation and action == "run" and not selection.overwrite else {}
    return grades(pair, next(reversed(others.values()))) if others else pair


def why_not_asked(model: ModelFact, kind: KindFact) -> str:
    """Return why a model behind an endpoint cannot be asked in this kind, and what to do; empty if it can."""
    if model.api and kind.harness:
        return f"{kind.harness} measures checkpoints of this node; {model.name} is behind an endpoint"
    if model.api == "chat" and not kind.takes_chat:
        return (
            f"{kind.kind} begins the answer or compares log-probabilities, which a chat API does not take: name a kind "
            'of one turn (--only-jobs free_response.chat), or set api = "completions" if the server has that'
        )
    if model.api and kind.chooses and model.logprobs:
        return f"{kind.kind} compares log-probabilities, and {model.name} does not give them: {model.logprobs}"
    return ""


def keys_of(selection: Selection, facts: Facts, model: ModelFact, kind: KindFact) -> dict[str, str]:
    """Return generation key -> grade key for everything that the pair may turn out to be, whichever keys are used."""
    works = [work_of(selection, replace(facts, used=bool), model, kind)]  # as if every key were used
    if works[0].kind != (kind.asked_as or kind.kind):
        works.append(work_of(selection, replace(facts, used=lambda _key: False), model, kind))
    keys = filter(None, map(generation_key, works))
    return {key: grade_key(key, kind.grader, kind.grader_version, kind.grading) for key in keys}


def work_of(selection: Selection, facts: Facts, model: ModelFact, kind: KindFact) -> WorkIdentity:
    """Return what is generated. Kinds that differ in their grader alone once had keys of their own: a store with such a
    job continues with its key."""
    asked_as = kind.asked_as or kind.kind
    work = WorkIdentity(
        weights_sha256=model.sha256,
        rows_sha256=kind.rows_sha256,
        benchmark=kind.benchmark,
        benchmark_version=kind.benchmark_version,
        kind=asked_as,
        configuration=kind.configuration,
        seed=int(str(kind.configuration.get("seed", 0))),
        limit=limit_for(selection, kind.rows),
        numerics=facts.numerics_of(model),
    )
    if asked_as == kind.kind:
        return work
    former = replace(work, kind=kind.kind, configuration=kind.configuration | {"kind": kind.kind})
    return former if facts.used(generation_key(former)) else work


def rows_within(selection: Selection, rows: int | None) -> int | None:
    """Return how many rows are asked; None while it is not known how many there are."""
    return rows if rows is None or selection.limit is None else min(rows, selection.limit)


def limit_for(selection: Selection, rows: int | None) -> int | None:
    """Return the limit on the rows; None if it leaves none out, as that is the same work as without a limit."""
    return None if selection.limit is None or (rows is not None and selection.limit >= rows) else selection.limit


def decide(
    selection: Selection, facts: Facts, model: ModelFact, kind: KindFact, generation: str, graded: str
) -> tuple[Action, Reason, str, str]:
    """Return (action, reason, detail, job). The first rule that applies wins."""
    found = facts.open_jobs(model.path, kind.benchmark, kind.kind, graded)
    if found is not None:
        job, action, reason, detail = found
        return action, reason, detail, job
    if model.broken:
        return "hold", "does-not-load", model.broken, ""
    if graded and not selection.overwrite and (job := facts.scored(graded)):
        return "skip", "done", f"{job} has the score; --overwrite runs it again", job
    if generation and not selection.overwrite and (job := facts.generated(generation).get(kind.kind, "")):
        return "skip", "regrade", f"{job} has the completions: `rwkvctl regrade {job}`; --overwrite runs it again", job
    if unaskable := why_not_asked(model, kind):
        return "skip", "endpoint-cannot", unaskable, ""
    if kind.rows is None and not kind.harness:
        action = "hold" if selection.hold_missing else "skip"
        return action, "data-missing", kind.rows_problem or f"rwkvctl data prepare {kind.benchmark}", ""
    if kind.judged and not facts.judge:
        asked_for = {kind.kind, kind.job} & set(selection.only_jobs)
        return "hold" if asked_for else "skip", "judge-not-configured", "", ""
    if waits := why_model_waits(facts, model, kind):
        return "hold", *waits, ""
    if facts.disk_low:
        return "hold", "disk-low", "", ""
    return "run", "run", "", ""


def why_model_waits(facts: Facts, model: ModelFact, kind: KindFact) -> tuple[Reason, str] | None:
    """Return (reason, detail) if the model cannot be asked yet; None if it can."""
    if not model.sha256:
        return "weights-copying" if model.copying else "weights-hashing", ""
    if model.api and kind.chooses and model.logprobs is None:
        detail = "it does not answer, so it is not known whether it gives the log-probabilities of a prompt"
        return "endpoint-away", detail
    misfit = "" if model.api else facts.fits(model)
    return ("no-fit", misfit) if misfit else None
