"""Running one job: feeders send batches to engines, threads grade, one file takes what is finished.

The daemon may be away at any time. All its instructions are in the run directory, which is read twice a second.
"""

import asyncio
import contextlib
import queue
import threading
import traceback
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec

from rwkv_daemon.runner.ask import Asker, Batch, answer_of
from rwkv_daemon.runner.engine_client import EngineAwayError, EngineBusyError, EngineClient, EngineDiedError
from rwkv_daemon.runner.race import Race
from rwkv_daemon.runner.samples_file import SamplesFile
from rwkv_daemon.runner.work_left import SUSPECT_DEATHS, SampleQueues, SampleUnit
from rwkv_daemon.runner.writer_work import Ended, PartToGrade, WriterWork
from rwkv_daemon.workers.run_directory import EngineEndpoint, JobSpec, RunDir, SampleRecord, StageRecord
from rwkv_data.definition.grader import GradeFunction, SandboxPlace
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkvctl.protocol.engine import Generated, Scored

BATCH = 64
FEEDERS = 4
LOOK_S = 0.5
AWAY_S = 0.5
GRADES_S = 5.0
"""A paused runner waits so long for grades; samples without one by then are graded later, without an engine."""


ToGrade: TypeAlias = "queue.SimpleQueue[SampleUnit | PartToGrade | None]"


class RunStoppedError(Exception):
    """The daemon (or a signal) asked the job to stop."""


class RunPausedError(Exception):
    """The daemon asked the job to pause, and nothing is in flight any more."""


class OutOfTimeError(Exception):
    """The job has been at work for as long as its `max_runtime_s` allows."""


@dataclass(slots=True)
class JobRun:
    """One attempt at a job: the work that is left, the engines that do it, and the file its samples go to."""

    spec: JobSpec
    folder: RunDir
    kind: Kind
    rows: Sequence[Row]
    work: SampleQueues
    samples: SamplesFile
    race: Race | None = None
    writer_work: WriterWork | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    engines: set[EngineEndpoint] = field(default_factory=set)
    in_flight: int = 0
    alone: bool = False
    pausing: bool = False
    grading: int = 0
    grades: list[SampleRecord] = field(default_factory=list)
    parts: deque[PartToGrade] = field(default_factory=deque)
    asker: Asker = field(init=False)

    def __post_init__(self) -> None:
        self.asker = Asker(self.spec, self.kind, self.rows, self.work, self.writer_work)

    async def finish(self) -> None:
        """Run until every sample is written. Raises RunStoppedError, RunPausedError, OutOfTimeError, DiskFullError,
        EngineRefusedError."""
        with ExitStack() as stack:
            spec = self.spec
            slots_dir = Path(spec.slots_dir) if spec.slots_dir else None
            place = SandboxPlace(slots_dir=slots_dir, slots=spec.slots, unsandboxed=spec.unsandboxed)
            workers = self.kind.grader.workers if self.writer_work is None or self.writer_work.is_graded else 0
            graders = [stack.enter_context(self.kind.grading(place)) for _ in range(workers)]
            self.run_on()
            if self.writer_work is not None:
                for record in self.writer_work.left_out(self.work):
                    self.write(record)
            async with asyncio.TaskGroup() as tasks:
                tasks_beside = [tasks.create_task(self.watch(), name="watch")]
                if not self.spec.regrade:
                    tasks_beside.append(tasks.create_task(self.feed_all(), name="feed"))
                await self.grade_all(graders)
                for task in tasks_beside:
                    task.cancel()

    async def watch(self) -> None:
        """Read the desired state, and touch the liveness file. Ends the job when the run directory or a signal says so,
        or when the kind's time limit is over."""
        limit_s, clock = self.kind.max_runtime_s, asyncio.get_running_loop().time
        ends, quiet = clock() + limit_s, clock()
        while not self.stop.is_set():
            touch(self.folder.alive(self.spec.attempt))
            desired = self.folder.read_desired()
            if desired == "stop":
                break
            if desired != "pause" or (self.in_flight and not self.spec.api):  # an endpoint's replies are kept anyway
                quiet = clock()
            elif not self.grading or clock() - quiet > GRADES_S:
                raise RunPausedError
            await self.pause(wanted=desired == "pause")
            if limit_s and clock() > ends:
                raise OutOfTimeError(f"max_runtime_s = {limit_s:g} is over with {self.work.left} samples to do")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self.stop.wait()
        raise RunStoppedError

    async def pause(self, *, wanted: bool) -> None:
        """Stop sending to the engines, or continue."""
        if wanted != self.pausing:
            self.pausing = wanted
            await self.notify()

    async def feed_all(self) -> None:
        """Feed the engines named in engines.json, side by side. An added engine is fed at once; one that is removed
        gets no further batch, and finishes those it has."""
        fed: dict[EngineEndpoint, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            while True:
                named = set(self.folder.read_engines().endpoints)
                if named != self.engines:
                    self.engines = named
                    await self.notify()
                fed = {endpoint: task for endpoint, task in fed.items() if not task.done()}
                for endpoint in named - fed.keys():
                    fed[endpoint] = tasks.create_task(self.feed_engine(endpoint), name=f"feed {endpoint.engine}")
                await asyncio.sleep(LOOK_S)

    async def feed_engine(self, endpoint: EngineEndpoint) -> None:
        """Keep several batches in flight, so that the engine always has one waiting."""
        client = EngineClient(endpoint)
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(FEEDERS):
                    tasks.create_task(self.feed(client), name=f"feed {endpoint.engine}")
        finally:
            client.close()

    async def feed(self, client: EngineClient) -> None:
        """Send batches to one engine as long as it is in use."""
        while units := await self.next_units(client.endpoint):
            batch = self.asker.batch(self.to_be_asked(units), client.endpoint.engine)
            pause = 0.0
            try:
                if batch.waiting:
                    await self.exchange(client, batch)
            except EngineBusyError as busy:
                pause = busy.retry_s
            except EngineAwayError:
                pause = AWAY_S
            except EngineDiedError as death:
                if self.spec.api or await client.ended_from_outside():
                    pass  # no sample is to blame: the daemon, which serves the relay, or somebody's kill
                elif death.answering or not client.died:  # else this death was counted already
                    self.count_deaths(batch, str(death))
                client.died, pause = True, AWAY_S
            finally:
                await self.give_back(batch)
            await asyncio.sleep(pause)

    def to_be_asked(self, units: list[SampleUnit]) -> list[SampleUnit]:
        """Return the units that a model must be asked about now: some of a writer's need no call, or a grade first."""
        if self.writer_work is None:
            return units
        left = []
        for unit in units:
            match self.writer_work.before_asking(unit):
                case None:
                    left.append(unit)
                case PartToGrade() as part:
                    self.parts.append(part)
                    self.wake()
                case ended:
                    self.end_units(ended)
        return left

    def end_units(self, ended: Ended) -> None:
        """Write what a writer's work has made of units: completions that are to be graded, and finished samples."""
        for unit, record in ended:
            if isinstance(record, SampleRecord):
                self.write(record)
                self.wake()
            else:
                prompt = self.asker.new_prompt(unit) if record.prompt is None else record.prompt
                self.end_stage(unit, msgspec.structs.replace(record, prompt=prompt))

    @property
    def may_send(self) -> bool:
        """Whether another batch may be sent: not beside a suspect, and not while the job is to pause."""
        return not self.alone and not self.pausing

    async def next_units(self, endpoint: EngineEndpoint) -> list[SampleUnit]:
        """Wait for units for an engine; none if it is not in use any more. A suspect is sent alone, when nothing else
        is in flight, and nothing is sent beside it."""
        async with self.changed:
            while True:
                if endpoint not in self.engines:
                    return []
                if self.may_send and self.work.suspects and not self.in_flight:
                    self.alone = True
                    units = [self.work.suspects.popleft()]
                    break
                if self.may_send and not self.work.suspects and (units := self.work.take(BATCH, endpoint.engine)):
                    break
                await self.changed.wait()
            self.in_flight += 1
            return units

    async def give_back(self, batch: Batch) -> None:
        """End a request: units without an answer wait again."""
        async with self.changed:
            self.in_flight -= 1
            self.alone = False
            for unit in reversed(batch.waiting.values()):
                self.work.add(unit)
            batch.waiting.clear()
            self.changed.notify_all()

    def count_deaths(self, batch: Batch, why: str) -> None:
        """Count the engine's death with these units. A unit that was alone with it is given up."""
        for place, unit in list(batch.waiting.items()):
            unit.deaths += 1
            if unit.deaths > SUSPECT_DEATHS:
                del batch.waiting[place]
                self.give_up(unit, f"the engine died {unit.deaths} times with this sample, the last time alone ({why})")

    async def exchange(self, client: EngineClient, batch: Batch) -> None:
        """Send one request, and write every answer as it comes."""
        async with aclosing(client.ask(batch)) as answers:  # type: ignore[type-var]
            async for answer in answers:
                index = answer.index if isinstance(answer, Generated) else 0
                unit = batch.waiting.get((answer.id, index))
                if unit is not None:
                    self.take_answer(client, batch, unit, answer)

    def take_answer(self, client: EngineClient, batch: Batch, unit: SampleUnit, answer: Generated | Scored) -> None:
        """Write a finished stage, and queue the unit for its next one."""
        index = answer.index if isinstance(answer, Generated) else 0
        del batch.waiting[answer.id, index]
        if answer.error == "gone":
            unit.kept = None
            self.work.add(unit)
            self.wake()
            return
        if answer.error:
            self.give_up(unit, answer.error)
            return
        record = self.asker.stage_record(unit, answer, client.endpoint.engine, batch.sent)
        if self.writer_work is None:
            unit.kept = (client.endpoint.engine, answer.id, index)
            self.end_stage(unit, record)
            return
        ended = self.writer_work.read(unit, record)
        if ended is None:
            self.asker.forget_prompt(record)
            self.work.again(unit)
            self.wake()
            return
        self.end_units(ended)
        if all(isinstance(finished, SampleRecord) for _, finished in ended):
            self.samples.append(record)  # last: a reply alone would be graded if this process is killed here

    def end_stage(self, unit: SampleUnit, record: StageRecord) -> None:
        """Write a finished stage, and queue the unit for what follows."""
        self.samples.append(record)
        unit.stages.append(record)
        self.work.add(unit)
        self.wake()

    def give_up(self, unit: SampleUnit, why: str) -> None:
        """Record a sample that cannot be generated, and those that end with it, as errors, never as wrong answers."""
        for each in (unit, *unit.beside):
            record = SampleRecord(row=each.row, repeat=each.repeat, value=None, reason="error", detail=why)
            self.write(record)
            if self.race is not None:
                self.race.take(record)
                self.run_on()
        self.wake()

    def wake(self) -> None:
        """Wake feeders and the grader, as something changed."""
        asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(self.notify()))

    async def notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def grade_all(self, graders: Sequence[GradeFunction]) -> None:
        """Grade in threads, one per grader, until nothing is left."""
        loop = asyncio.get_running_loop()
        todo: ToGrade = queue.SimpleQueue()

        def work(grader: GradeFunction) -> None:
            while (next_one := todo.get()) is not None:
                if isinstance(next_one, PartToGrade):
                    record = grade(grader, self.rows[next_one.unit.row], next_one.as_sample)
                    loop.call_soon_threadsafe(self.take_part, next_one, record)
                else:
                    loop.call_soon_threadsafe(self.take_grade, grade(grader, self.rows[next_one.row], next_one))

        for grader in graders:
            threading.Thread(target=work, args=(grader,), name="grade", daemon=True).start()
        try:
            while self.work.left:
                await self.exchange_grades(todo)
        finally:
            for _ in graders:
                todo.put(None)

    async def exchange_grades(self, todo: "ToGrade") -> None:
        """Pass ungraded units and parts to the threads, and write the grades that come back."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.work.ungraded or self.parts or self.grades or not self.work.left)
            for waiting in (self.work.ungraded, self.parts):
                while waiting:
                    self.grading += 1
                    todo.put(waiting.popleft())
            finished, self.grades = self.grades, []
        for record in finished:
            self.grading -= 1
            self.write(record)
        if self.race is not None:
            for record in finished:
                self.race.take(record)
            self.run_on()

    def run_on(self) -> None:
        """Let the race of a search continue as far as its verdicts allow."""
        if self.race is not None:
            for record in self.race.advance(self.work):
                self.write(record)
            self.wake()

    def write(self, record: SampleRecord) -> None:
        """Append a finished sample to the samples file, and count it as done."""
        self.samples.append(record)
        self.work.left -= 1

    def take_part(self, part: PartToGrade, record: SampleRecord) -> None:
        """Take in the grade of a part, and go on with its unit."""
        self.grading -= 1
        part.take(record)
        self.work.again(part.unit)
        self.wake()

    def take_grade(self, record: SampleRecord) -> None:
        """Take in a sample that a grading thread has finished."""
        self.grades.append(record)
        self.wake()


def touch(path: Path) -> None:
    """Update a file's time, which shows that this process makes progress. A full disk is ignored."""
    with contextlib.suppress(OSError):
        path.touch(mode=0o640)


def grade(grader: GradeFunction, row: Row, unit: SampleUnit) -> SampleRecord:
    """Return one verdict as a record. A bug in a grader is an error of that sample: the others keep their verdicts, the
    log has the traceback, and `rwkvctl regrade` repeats it once the grader is fixed."""
    try:
        verdict = grader(row, answer_of(unit))
    except Exception as error:  # noqa: BLE001 - any bug of a grader
        traceback.print_exc()
        detail = f"the grader failed: {type(error).__name__}: {error}"
        return SampleRecord(row=unit.row, repeat=unit.repeat, value=None, reason="error", detail=detail)
    return SampleRecord(
        row=unit.row,
        repeat=unit.repeat,
        value=verdict.value,
        reason=verdict.reason,
        expected=storable(verdict.expected),
        extracted=None if verdict.extracted is None else storable(verdict.extracted),
        detail=storable(verdict.detail),
        route=verdict.route,
        parts=dict(verdict.parts),
    )


def storable(text: str) -> str:
    """Return a text without lone surrogates, which no file or store takes and a model may write."""
    return text.encode("utf-8", "backslashreplace").decode()
