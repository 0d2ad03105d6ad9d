"""A job that has a writer split completions of another job into thoughts, and makes the shorter variants of them.

Its repeats are the variants, in the order of `VARIANT_RULES`; of each row the shortest right completion is split. The
first unit of a row that waits leads: it goes through all questions, and the others end with it. Whether a thought is
right the grader of the kind says; where the thought states no answer, the writer is asked. Thoughts are looked at in
order, and only as far as a variant depends on them.

What is known of a row is kept in memory alone. After a kill its questions are asked again, and their replies are those
that the daemon has stored.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from rwkv_daemon.runner.originals import Originals, Place, find_originals
from rwkv_daemon.runner.rewriting import unusable
from rwkv_daemon.runner.work_left import SampleQueues, SampleUnit
from rwkv_daemon.runner.writer_work import Ended, PartToGrade, Tries, asked_of
from rwkv_daemon.workers.run_directory import JobSpec, RewritingSource, SampleRecord, StageRecord
from rwkv_data import writers
from rwkv_data.definition.errors import RowsDamagedError
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.graders.stated import states_answer
from rwkv_data.recipes.selection.preference_pair import WHY_NO_PAIR, NoPair
from rwkv_data.recipes.selection.thought_variants import VARIANT_RULES, first_undecided, kept_thoughts
from rwkv_data.writers.split_rule import CompletionParts, SplitRule
from rwkv_data.writers.writer_rule import UnusableRewritingError
from rwkvctl.protocol.engine import GenerateItem


@dataclass(slots=True)
class SplitCompletion:
    """A completion that is being split, and its tokens; where each thought ends and whether it is right, as far as that
    is known, and which the writer was asked about; the one about which it is to be asked (None: where the thoughts
    end); and what was asked so far."""

    parts: CompletionParts
    tokens: int
    ends: tuple[int, ...] = ()
    verdicts: list[bool | None] = field(default_factory=list)
    by_writer: set[int] = field(default_factory=set)
    asking: int | None = None
    tries: Tries = field(default_factory=Tries)
    split_by: str = ""
    prompt_tokens: int = 0

    def thought(self, index: int) -> str:
        """Return the text of a thought, without the blanks around it. `index` counts from 0."""
        return self.parts.reasoning[self.ends[index - 1] if index else 0 : self.ends[index]].strip()

    def decide(self, index: int, verdict: bool) -> None:
        """Note whether a thought is right."""
        self.verdicts[index], self.asking, self.tries = verdict, None, Tries()

    def tokens_of(self, variant: str) -> int:
        """Return the tokens of a variant by its share of the bytes: no tokenizer of the model is at hand."""
        whole = len("".join(self.parts).encode(errors="replace"))
        return max(1, self.tokens * len(variant.encode(errors="replace")) // whole)

    def said(self) -> str:
        """Return what is known of its thoughts, in a few words."""
        words = {True: "right", False: "wrong", None: "not looked at"}
        each = (words[verdict] + " (writer)" * (index in self.by_writer) for index, verdict in enumerate(self.verdicts))
        return f"its thoughts: {', '.join(each)}"


@dataclass(slots=True)
class Splitting:
    """The shortest right completions of a job, one a row at most (`shortest`), and those that are being split, by
    row."""

    spec: JobSpec
    rule: SplitRule
    kind: Kind
    rows: list[Row]
    originals: Originals
    shortest: dict[int, Place]
    begun: dict[int, SplitCompletion] = field(default_factory=dict)

    @property
    def is_graded(self) -> bool:
        return True

    def left_out(self, work: SampleQueues) -> Iterator[SampleRecord]:
        """Leave of each row one unit in the work, beside which the others wait; yield a record for each sample of which
        no variant can be made."""
        waiting = list(work.pending)
        work.pending.clear()
        leads = dict[int, SampleUnit]()
        for unit in waiting:
            if unit.row not in self.shortest:
                detail = f"{self.originals.name} has no two right samples of different lengths"
                yield SampleRecord(row=unit.row, repeat=unit.repeat, value=None, reason="dropped", detail=detail)
            elif unit.row in leads:
                leads[unit.row].beside.append(unit)
            else:
                leads[unit.row] = unit
                work.pending.append(unit)

    def before_asking(self, unit: SampleUnit) -> Ended | PartToGrade | None:
        """Return the variants, if all is known that they depend on; or the thought that is to be graded first; None if
        the writer must be asked."""
        if unit.row not in self.begun:
            original = self.originals.read(self.shortest[unit.row])
            try:
                self.begun[unit.row] = SplitCompletion(self.rule.parts(original.text), original.generated)
            except UnusableRewritingError as error:
                return ended_by(unit, error, "no-form")
        completion = self.begun[unit.row]
        if not completion.ends or completion.asking is not None:
            return None
        index = first_undecided(completion.verdicts)
        if index is None:
            return self._variants(unit)
        thought = completion.thought(index)
        return PartToGrade(unit, thought, lambda record: take_grade(completion, index, thought, record))

    def prompt(self, unit: SampleUnit) -> str:
        """Return what the user said."""
        return asked_of(self.kind, self.rows[unit.row])

    def item(self, unit: SampleUnit, name: str) -> GenerateItem:
        """Return the next question about a row."""
        completion, problem = self.begun[unit.row], self.prompt(unit)
        index, tries, parts = completion.asking, completion.tries, completion.parts
        if index is None:
            messages = self.rule.ask(problem, parts.reasoning)
            return tries.item(messages, self.rule.room(parts.reasoning), f"{name}.split", self.spec.job)
        messages = self.rule.ask_verdict(problem, parts.solution, completion.thought(index))
        return tries.item(messages, self.rule.verdict_room, f"{name}.thought-{index}", self.spec.job)

    def read(self, unit: SampleUnit, reply: StageRecord) -> Ended | None:
        """Take in a reply. Returns the samples of the row without a grade, if no reply to a question can be used; None
        otherwise: `before_asking` says how it goes on."""
        completion = self.begun[unit.row]
        completion.prompt_tokens += reply.prompt_tokens
        completion.tries.take(reply)
        try:
            self._read(completion, reply)
        except UnusableRewritingError as error:
            if completion.tries.asked < self.rule.attempts:
                return None
            del self.begun[unit.row]
            return ended_by(unit, error, "not-split")
        return None

    def _read(self, completion: SplitCompletion, reply: StageRecord) -> None:
        if completion.asking is not None:
            completion.decide(completion.asking, self.rule.read_verdict(reply.text))
            return
        completion.ends = self.rule.read(completion.parts.reasoning, reply.text)
        completion.verdicts = [None] * len(completion.ends)
        completion.split_by, completion.tries = reply.engine, Tries()

    def _variants(self, lead: SampleUnit) -> Ended:
        completion = self.begun.pop(lead.row)
        kept, ended = kept_thoughts(completion.verdicts), Ended()
        for unit in (lead, *lead.beside):
            rule = VARIANT_RULES[unit.repeat]
            if rule not in kept:
                why: NoPair = "one-true" if kept else "none-true"
                detail = f"{WHY_NO_PAIR[why]}; {completion.said()}"
                record = SampleRecord(
                    row=unit.row, repeat=unit.repeat, value=None, reason="dropped", detail=detail, route=why
                )
                ended.append((unit, record))
                continue
            text = completion.parts.shortened(completion.ends[kept[rule] - 1])
            stage = StageRecord(
                row=unit.row, repeat=unit.repeat, stage=0, text=text, stop="stop_token", engine=completion.split_by,
                generated=completion.tokens_of(text),
                prompt_tokens=0 if unit.repeat else completion.prompt_tokens,  # whoever leads: so after a kill, too
            )  # fmt: skip
            ended.append((unit, stage))
        return ended


def take_grade(completion: SplitCompletion, index: int, thought: str, record: SampleRecord) -> None:
    """Take the grader's verdict on a thought; where that states no answer, the writer is to be asked."""
    right = record.value is not None and record.value >= 1
    found = record.value is not None and record.reason != "no_answer"
    if not found or not states_answer(thought, record.route, right=right):
        completion.asking = index
        completion.by_writer.add(index)
    else:
        completion.decide(index, right)


def ended_by(lead: SampleUnit, error: UnusableRewritingError, why: NoPair) -> Ended:
    """Return the samples of a row that cannot be split; their route says why there is no pair."""
    units = (lead, *lead.beside)
    return [(unit, msgspec.structs.replace(unusable(unit, error), route=why)) for unit in units]


def open_splitting(spec: JobSpec, source: RewritingSource, kind: Kind, rows: list[Row]) -> Splitting:
    """Return what a job splits. Raises DataError if its rule is not known in this version, or a completion is not there
    any more."""
    rule = writers.SPLIT_RULE
    if rule.label != source.rule:
        version = source.rule.partition("/")[2]
        raise RowsDamagedError(f"the rule {rule.name} has version {rule.version} now, and not {version}: split again")
    originals = find_originals(source, kind)
    return Splitting(spec, rule, kind, rows, originals, {place[0]: place for place in originals.lines})
