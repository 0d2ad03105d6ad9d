"""Sample units as requests to an engine, and its answers as records. No I/O."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from rwkv_daemon.rules import work_keys
from rwkv_daemon.runner.work_left import SampleQueues, SampleUnit
from rwkv_daemon.runner.writer_work import WriterWork
from rwkv_daemon.workers.run_directory import JobSpec, StageRecord
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkvctl.protocol.engine import Continue, Generated, GenerateItem, Sampling, Scored, ScoreItem


@dataclass(slots=True)
class Batch:
    """One request: its route, its lines, and the unit that each (item id, index) answers."""

    route: str
    lines: list[bytes]
    waiting: dict[tuple[str, int], SampleUnit]
    sent: float = field(default_factory=time.monotonic)

    @property
    def body(self) -> bytes:
        return b"\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class Asker:
    """Builds requests for one job and decodes their answers."""

    spec: JobSpec
    kind: Kind
    rows: Sequence[Row]
    work: SampleQueues
    writer_work: WriterWork | None = None
    prompts_written: set[tuple[int, int]] = field(default_factory=set)
    samplings: dict[tuple[int, int], Sampling] = field(default_factory=dict)

    def batch(self, units: list[SampleUnit], engine: str) -> Batch:
        """Return one request for units of one stage. New repeats of a row share an item, so that the prompt is
        prefilled once."""
        stage = self.kind.stages[units[0].stage if units else 0]
        if stage.mode == "choose":
            items = [(self.score_item(unit, engine), [unit]) for unit in units]
            lines = [msgspec.json.encode(item) for item, _ in items]
            return Batch("/v1/score", lines, {(item.id, 0): group[0] for item, group in items})
        groups = [[unit] for unit in units] if self.kind.search or self.writer_work else same_row(units)
        generate = [(self.generate_item(group, engine), group) for group in groups]
        waiting = {(item.id, index): unit for item, group in generate for index, unit in enumerate(group)}
        return Batch("/v1/generate", [msgspec.json.encode(item) for item, _ in generate], waiting)

    def name(self, unit: SampleUnit) -> str:
        return f"{self.spec.job}.{self.spec.attempt}.{unit.row}.{unit.repeat}.{unit.stage}.{unit.deaths}"

    def generate_item(self, group: list[SampleUnit], engine: str) -> GenerateItem:
        first = group[0]
        index = first.stage
        stage = self.kind.stages[index]
        if self.writer_work is not None:
            return self.writer_work.item(first, self.name(first))
        if self.spec.api == "chat":
            return self.chat_item(group)
        text, ids, tail, kept = self.context(first, engine)
        return GenerateItem(
            id=self.name(first),
            text=text,
            ids=ids,
            tail=tail,
            continue_from=kept,
            n=len(group),
            keys=tuple(self.random_key(unit) for unit in group),
            sampling=self.sampling(index, first.repeat),
            stops=stage.stops,
            group=f"j{self.spec.job}",
            keep=index + 1 < len(self.kind.stages),
        )

    def chat_item(self, group: list[SampleUnit]) -> GenerateItem:
        """Return the item for a model behind a chat API: the row as a conversation."""
        first = group[0]
        return GenerateItem(
            id=self.name(first),
            messages=self.kind.turns(self.rows[first.row]),
            n=len(group),
            keys=tuple(self.random_key(unit) for unit in group),
            sampling=self.sampling(first.stage, first.repeat),
            stops=self.kind.stages[first.stage].stops,
            group=f"j{self.spec.job}",
        )

    def sampling(self, stage: int, repeat: int) -> Sampling:
        """Return the kind's sampling of a stage for a repeat, cached: a search has hundreds."""
        place = (stage, repeat if self.kind.search else 0)
        if place not in self.samplings:
            self.samplings[place] = self.kind.sampling(*place)
        return self.samplings[place]

    def random_key(self, unit: SampleUnit) -> int:
        """Return a sample's own random key; in a search all points use the same, so that only their settings differ."""
        repeat = 0 if self.kind.search else unit.repeat
        return work_keys.random_key(self.spec.seed, unit.row, repeat, unit.stage)

    def choices(self, unit: SampleUnit) -> tuple[str, ...]:
        """Return the choices of a choose stage for this row."""
        choices = self.kind.stages[unit.stage].choices
        assert choices is not None, "a choose stage has choices"
        return choices(self.rows[unit.row])

    def score_item(self, unit: SampleUnit, engine: str) -> ScoreItem:
        text, ids, tail, kept = self.context(unit, engine)
        return ScoreItem(
            id=self.name(unit),
            context=text,
            context_ids=ids,
            tail=tail,
            continue_from=kept,
            continuations=self.choices(unit),
            split=self.kind.stages[unit.stage].split,
            group=f"j{self.spec.job}",
        )

    def context(self, unit: SampleUnit, engine: str) -> tuple[str | None, tuple[int, ...] | None, str, Continue | None]:
        """Return (text, ids, tail, continue): the first stage's prompt; else the state that the engine keeps; else the
        ids of all earlier stages, sent again."""
        prompt = self.kind.prompt(unit.stage, self.rows[unit.row])
        if unit.stage == 0:
            return prompt, None, "", None
        if self.spec.api:  # whose model has tokens of its own
            return self.text_before(unit) + prompt, None, "", None
        if unit.kept is not None and unit.kept[0] == engine:
            return None, None, "", Continue(id=unit.kept[1], index=unit.kept[2], tail=prompt)
        last = unit.stages[-1]
        return None, self.work.prompt_ids[unit.row, last.stage] + last.ids, prompt, None

    def text_before(self, unit: SampleUnit) -> str:
        """Return everything before the unit's next stage, as one text."""
        row = self.rows[unit.row]
        return "".join(self.kind.prompt(record.stage, row) + record.text for record in unit.stages)

    def prompt_sent(self, unit: SampleUnit) -> str:
        """Return the prompt of the unit's stage; for a chat API it is what the user says."""
        row = self.rows[unit.row]
        if self.writer_work is not None:
            return self.writer_work.prompt(unit)
        if self.spec.api == "chat":
            return "\n\n".join(turn.content for turn in self.kind.turns(row))
        return self.kind.prompt(unit.stage, row)

    def stage_record(self, unit: SampleUnit, answer: Generated | Scored, engine: str, sent: float) -> StageRecord:
        """Return a finished stage. The prompt and its ids are written with the first repeat that finishes it."""
        prompt = self.new_prompt(unit)
        first, place = prompt is not None, (unit.row, unit.stage)
        prompt_ids = answer.prompt_ids if isinstance(answer, Generated) else ()
        if prompt_ids and unit.stage == 0:
            self.work.prompt_ids.setdefault(place, prompt_ids)
        record = StageRecord(
            row=unit.row,
            repeat=unit.repeat,
            stage=unit.stage,
            prompt=prompt,
            prompt_ids=prompt_ids if first and unit.stage == 0 else (),
            prompt_tokens=answer.usage.prompt,
            cached=answer.usage.cached,
            generated=answer.usage.generated,
            engine=engine,
            seconds=round(time.monotonic() - sent, 3),
        )
        if isinstance(answer, Scored):
            logprobs = tuple(score.logprob for score in answer.scores)
            best = max(range(len(logprobs)), key=lambda i: logprobs[i])
            # A single continuation is no choice; its text is in the row and need not be stored again.
            text = self.choices(unit)[best] if len(logprobs) > 1 else ""
            greedy = tuple(score.greedy for score in answer.scores)
            return msgspec.structs.replace(record, text=text, logprobs=logprobs, greedy=greedy, choice=best)
        return msgspec.structs.replace(record, ids=answer.ids, text=answer.text, stop=answer.stop)

    def new_prompt(self, unit: SampleUnit) -> str | None:
        """Return the prompt of a unit's stage to be written with its record; None if another of its row has it."""
        place = unit.row, unit.stage
        if place in self.prompts_written:
            return None
        self.prompts_written.add(place)
        return self.prompt_sent(unit)

    def forget_prompt(self, record: StageRecord) -> None:
        """Have the prompt written with the next record of its row, as this one is not written."""
        if record.prompt is not None:
            self.prompts_written.discard((record.row, record.stage))


def same_row(units: list[SampleUnit]) -> list[list[SampleUnit]]:
    """Group consecutive new units of one row; later stages are each a group of their own."""
    groups: list[list[SampleUnit]] = []
    for unit in units:
        if groups and unit.stage == 0 and groups[-1][-1].row == unit.row and not unit.deaths:
            groups[-1].append(unit)
        else:
            groups.append([unit])
    return groups


def answer_of(unit: SampleUnit) -> Answer:
    """Return what the grader sees of a unit whose stages are all there."""
    last = unit.stages[-1]
    stops = tuple(record.stop for record in unit.stages if record.stop)
    earlier = tuple(record.text for record in unit.stages[:-1])
    return Answer(last.text, stops, last.logprobs, last.greedy, earlier)  # type: ignore[arg-type]  # stored stop kinds
