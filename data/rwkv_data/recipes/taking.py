"""Which samples of which problems a recipe takes, and how many it drops for which reason.

A problem is a row of a prepared set as one kind asks it: its samples may be of several models and jobs, because all of
them were asked the same.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rwkv_data.recipes.funnel import FunnelStage, stage
from rwkv_data.recipes.recipe_file import PairRules
from rwkv_data.recipes.selection.length_extremes import length_extremes
from rwkv_data.recipes.selection.preference_pair import WHY_NO_PAIR, NoPair, PairRule, PreferencePair, VariantRule
from rwkv_data.recipes.selection.problem_sample import ProblemSample, with_verdict
from rwkv_data.recipes.selection.selector import Selector
from rwkv_data.recipes.selection.selector_table import table_of
from rwkv_data.recipes.selection.short_long import short_long
from rwkv_data.recipes.selection.silc import silc
from rwkv_data.recipes.selection.thought_pair import ShortenedProblem, thought_pair

NO_VERDICT: Final[Mapping[str, str]] = {"unjudged": "not judged", "error": "error of the grader"}
"""What a sample without a verdict is called, by the reason of its grade; any other has no verdict."""
NOT_RIGHT: Final[Mapping[str, str]] = {"no_answer": "no answer", "timeout": "timeout of the grader"}
"""What a sample that is not right is called, by the same; any other is wrong."""


@dataclass(frozen=True, slots=True)
class SampledProblem:
    """A problem: what its row is called, and its samples, each with the reason of its grade. If they are rewritings,
    `originals` are all samples that there were before. `shortened`: the variants that were made of them, job by
    job."""

    row_id: str
    samples: list[ProblemSample] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    originals: list[ProblemSample] = field(default_factory=list)
    shortened: list[ShortenedProblem] = field(default_factory=list)

    def add(self, sample: ProblemSample, reason: str) -> None:
        self.samples.append(sample)
        self.reasons.append(reason)


class Taken(NamedTuple):
    """A row to be: its problem by its place, the rule that took it, and its samples. `shortened`: the sample of which
    the chosen one is a variant."""

    problem: int
    rule: str
    chosen: ProblemSample
    rejected: ProblemSample | None = None
    shortened: ProblemSample | None = None


@dataclass(frozen=True, slots=True)
class TakenRows:
    """What is taken, in the order of the problems, and the stages that led there."""

    rows: list[Taken]
    funnel: tuple[FunnelStage, ...]


def take(taking: Selector | PairRules, problems: Sequence[SampledProblem], *, rewritten: bool = False) -> TakenRows:
    """Return what a recipe takes of problems; `rewritten`: their samples were graded once before they were
    rewritten."""
    again = "check again" if rewritten else ""
    if isinstance(taking, Selector):
        return _selected(taking, problems, again or "right")
    return _paired(taking, problems, again or "verdicts")


def rule_name(taking: Selector | PairRules, rule: str) -> str:
    """Return a rule in one line with the settings that matter to it, for the lineage of a row."""
    if isinstance(taking, PairRules):
        return f"{rule} min_gap={taking.min_gap}" if rule == "short-long" else rule
    idle = {"rule"} if taking.rule == "k-correct" else {"rule", "seed"}
    settings = {name: value for name, value in table_of(taking).items() if name not in idle}
    return " ".join([rule, *(f"{name}={_value(value)}" for name, value in settings.items())])


def _value(value: object) -> str:
    return f"{value[0]:g}-{value[1]:g}" if isinstance(value, list) else str(value)


def _selected(selector: Selector, problems: Sequence[SampledProblem], first: str) -> TakenRows:
    verdicts, rows = Counter[str](), list[Taken]()
    outside = more = 0
    for number, problem in enumerate(problems):
        verdicts.update(why_not_right(sample, why) for sample, why in _with_reasons(problem))
        taken = selector.select(problem.row_id, problem.samples, problem.originals)
        rows += [Taken(number, selector.rule, sample) for sample in taken]
        left = sum(sample.may_be_chosen for sample in problem.samples) - len(taken)
        in_range = selector.in_range(problem.originals or problem.samples)
        outside, more = (outside, more + left) if in_range else (outside + left, more)
    every, right = sum(verdicts.values()), verdicts.pop("", 0)
    dropped = {"of problems outside the pass-rate": outside, "more of the same problems": more}
    name = f"select {rule_name(selector, selector.rule)}"
    return TakenRows(rows, (stage(first, "samples", every, verdicts), stage(name, "samples", right, dropped)))


def _with_reasons(problem: SampledProblem) -> Iterable[tuple[ProblemSample, str]]:
    return zip(problem.samples, problem.reasons, strict=True)


def why_not_right(sample: ProblemSample, reason: str) -> str:
    """Return why a sample cannot be an answer to learn; empty if it can."""
    if sample.value is None:
        return NO_VERDICT.get(reason, "no verdict")
    if not sample.is_correct:
        return NOT_RIGHT.get(reason, "wrong")
    return "cut off" if sample.cut_off else ""


def _paired(rules: PairRules, problems: Sequence[SampledProblem], first: str) -> TakenRows:
    judged = [problem for problem in problems if with_verdict(problem.samples)]
    without = Counter(
        NO_VERDICT.get(why, "no verdict")
        for problem in problems
        for sample, why in _with_reasons(problem)
        if sample.value is None
    )
    samples = sum(len(problem.samples) for problem in problems)
    missing = {rule: Counter[NoPair]() for rule in rules.rules}
    rows = list[Taken]()
    for number, problem in enumerate(problems):
        for rule in rules.rules if with_verdict(problem.samples) else ():
            found = _pair(rule, rules, problem)
            if isinstance(found, PreferencePair):
                rows.append(Taken(number, found.rule, found.chosen, found.rejected, found.shortened))
            else:
                missing[rule][found] += 1
    stages = (
        stage(f"pairs {rule_name(rules, rule)}", "problems", len(judged), _sentences(missing[rule]))
        for rule in rules.rules
    )
    return TakenRows(rows, (stage(first, "samples", samples, without), *stages))


def _pair(rule: PairRule, rules: PairRules, problem: SampledProblem) -> PreferencePair | NoPair:
    match rule:
        case "short-long":
            return short_long(problem.samples, min_gap=rules.min_gap)
        case "silc":
            return silc(problem.samples)
        case "fcs" | "fcs+1" | "fcs+reflection":
            return _variant_pair(rule, problem)


def _variant_pair(rule: VariantRule, problem: SampledProblem) -> PreferencePair | NoPair:
    """Return the pair of the first job that gives one. Both samples are of one job: the tokens of two models cannot be
    compared, and a variant has those of the sample that it is made of."""
    within = length_extremes(problem.samples)
    if isinstance(within, str):
        return within
    in_jobs = [one for one in problem.shortened if not isinstance(length_extremes(one.samples), str)]
    found = [thought_pair(rule, one) for one in in_jobs]
    return next((one for one in found if isinstance(one, PreferencePair)), found[0] if found else "of-two-jobs")


def _sentences(counts: Mapping[NoPair, int]) -> dict[str, int]:
    return {WHY_NO_PAIR[why]: count for why, count in counts.items()}
