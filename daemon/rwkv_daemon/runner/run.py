"""Running one job: feeders send batches to engines, one grader grades, one file takes what is finished.

The daemon may be away at any time. All it says comes from the run directory, which is read again twice a second.
"""

import asyncio
import queue
import threading
import traceback
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path

from rwkv_daemon.rundir import Engines, JobSpec, RunDir, SampleRecord
from rwkv_daemon.runner.ask import Asker, Batch, answer_of
from rwkv_daemon.runner.engines import EngineAwayError, EngineBusyError, EngineClient, EngineDiedError
from rwkv_daemon.runner.race import Race
from rwkv_daemon.runner.work import SUSPECT_DEATHS, Unit, Work
from rwkv_daemon.runner.writer import SamplesFile
from rwkv_data.benchmark import GradeFunction, Kind
from rwkv_data.grader import Place
from rwkv_data.stage import Row
from rwkvctl.protocol.engine import Generated, Scored

BATCH = 64
FEEDERS = 4
LOOK_S = 0.5
AWAY_S = 0.5


class StoppedError(Exception):
    """The daemon (or a signal) asked the job to stop."""


class OutOfTimeError(Exception):
    """The job has been at work for as long as its `max_runtime_s` allows."""


@dataclass(slots=True)
class Run:
    """One attempt at a job."""

    spec: JobSpec
    folder: RunDir
    kind: Kind
    rows: Sequence[Row]
    work: Work
    samples: SamplesFile
    race: Race | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    in_flight: int = 0
    alone: bool = False
    grades: list[SampleRecord] = field(default_factory=list)
    asker: Asker = field(init=False)

    def __post_init__(self) -> None:
        self.asker = Asker(self.spec, self.kind, self.rows, self.work)

    async def finish(self) -> None:
        """Run until every sample is written. Raises StoppedError, OutOfTimeError, DiskFullError, EngineRefusedError."""
        with ExitStack() as stack:
            spec = self.spec
            slots_dir = Path(spec.slots_dir) if spec.slots_dir else None
            place = Place(slots_dir=slots_dir, slots=spec.slots, unsandboxed=spec.unsandboxed)
            graders = [stack.enter_context(self.kind.grading(place)) for _ in range(self.kind.grader.workers)]
            self.run_on()
            async with asyncio.TaskGroup() as tasks:
                chores = [tasks.create_task(self.watch(), name="watch")]
                if not self.spec.regrade:
                    chores.append(tasks.create_task(self.feed_all(), name="feed"))
                await self.grade_all(graders)
                for chore in chores:
                    chore.cancel()

    async def watch(self) -> None:
        """Stop when the run directory or a signal says so, or when the time is over that the kind may take."""
        limit_s = self.kind.max_runtime_s
        ends = asyncio.get_running_loop().time() + limit_s
        while not self.stop.is_set():
            if self.folder.read_desired() == "stop":
                break
            if limit_s and asyncio.get_running_loop().time() > ends:
                raise OutOfTimeError(f"max_runtime_s = {limit_s:g} is over with {self.work.left} samples to do")
            try:
                async with asyncio.timeout(LOOK_S):
                    await self.stop.wait()
            except TimeoutError:
                continue
        raise StoppedError

    async def feed_all(self) -> None:
        """Feed the engines named in engines.json, starting over whenever it changes."""
        engines = self.folder.read_engines()
        while True:
            async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
                clients = [EngineClient(endpoint) for endpoint in engines.endpoints]
                for client in clients:
                    stack.push_async_callback(client.close)
                feeders = [
                    tasks.create_task(self.feed(client), name=f"feed {client.endpoint.engine}")
                    for client in clients
                    for _ in range(FEEDERS)
                ]
                engines = await self.other_engines(engines.epoch)
                for feeder in feeders:
                    feeder.cancel()

    async def other_engines(self, epoch: int) -> Engines:
        """Wait for another engines.json."""
        while True:
            await asyncio.sleep(LOOK_S)
            engines = self.folder.read_engines()
            if engines.epoch != epoch:
                return engines

    async def feed(self, client: EngineClient) -> None:
        """Send batches to one engine for as long as there are any."""
        while True:
            units = await self.next_units()
            batch = self.asker.batch(units, client.endpoint.engine)
            pause = 0.0
            try:
                await self.exchange(client, batch)
            except EngineBusyError as busy:
                pause = busy.retry_s
            except EngineAwayError:
                pause = AWAY_S
            except EngineDiedError as death:
                self.count_deaths(batch, str(death))
                pause = AWAY_S
            finally:
                await self.give_back(batch)
            await asyncio.sleep(pause)

    async def next_units(self) -> list[Unit]:
        """Wait for work. A suspect is taken alone, when nothing else is in flight, and nothing joins it."""
        async with self.changed:
            while True:
                if not self.alone and self.work.suspects and not self.in_flight:
                    self.alone = True
                    units = [self.work.suspects.popleft()]
                    break
                if not self.alone and not self.work.suspects and (units := self.work.take(BATCH)):
                    break
                await self.changed.wait()
            self.in_flight += 1
            return units

    async def give_back(self, batch: Batch) -> None:
        """A request is over: what it left unanswered waits again."""
        async with self.changed:
            self.in_flight -= 1
            self.alone = False
            for unit in reversed(batch.waiting.values()):
                self.work.add(unit)
            batch.waiting.clear()
            self.changed.notify_all()

    def count_deaths(self, batch: Batch, why: str) -> None:
        """The engine died under these units. One that was alone with it is given up."""
        for place, unit in list(batch.waiting.items()):
            unit.deaths += 1
            if unit.deaths > SUSPECT_DEATHS:
                del batch.waiting[place]
                self.give_up(unit, f"the engine died {unit.deaths} times with this sample, the last time alone ({why})")

    async def exchange(self, client: EngineClient, batch: Batch) -> None:
        """One request: every answer is written as it comes."""
        async with aclosing(client.ask(batch)) as answers:  # type: ignore[type-var]
            async for answer in answers:
                index = answer.index if isinstance(answer, Generated) else 0
                unit = batch.waiting.get((answer.id, index))
                if unit is not None:
                    self.take_answer(client, batch, unit, answer)

    def take_answer(self, client: EngineClient, batch: Batch, unit: Unit, answer: Generated | Scored) -> None:
        """Write a finished stage and send the unit on its way."""
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
        self.samples.append(record)
        unit.kept = (client.endpoint.engine, answer.id, index)
        unit.stages.append(record)
        self.work.add(unit)
        self.wake()

    def give_up(self, unit: Unit, why: str) -> None:
        """A sample that cannot be had: an error, never a wrong answer."""
        record = SampleRecord(row=unit.row, repeat=unit.repeat, value=None, reason="error", detail=why)
        self.write(record)
        if self.race is not None:
            self.race.take(record)
            self.run_on()
        self.wake()

    def wake(self) -> None:
        """Tell feeders and the grader that something changed."""
        asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(self.notify()))

    async def notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def grade_all(self, graders: Sequence[GradeFunction]) -> None:
        """Grade in threads beside the event loop, one a grader, until nothing is left."""
        loop = asyncio.get_running_loop()
        todo: queue.SimpleQueue[Unit | None] = queue.SimpleQueue()

        def work(grader: GradeFunction) -> None:
            while (unit := todo.get()) is not None:
                loop.call_soon_threadsafe(self.take_grade, grade(grader, self.rows[unit.row], unit))

        for grader in graders:
            threading.Thread(target=work, args=(grader,), name="grade", daemon=True).start()
        try:
            while self.work.left:
                await self.exchange_grades(todo)
        finally:
            for _ in graders:
                todo.put(None)

    async def exchange_grades(self, todo: "queue.SimpleQueue[Unit | None]") -> None:
        """Hand ungraded units to the threads and write what has come back."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.work.ungraded or self.grades or not self.work.left)
            while self.work.ungraded:
                todo.put(self.work.ungraded.popleft())
            finished, self.grades = self.grades, []
        for record in finished:
            self.write(record)
        if self.race is not None:
            for record in finished:
                self.race.take(record)
            self.run_on()

    def run_on(self) -> None:
        """Let the race of a search go on as far as its verdicts allow."""
        if self.race is not None:
            for record in self.race.advance(self.work):
                self.write(record)
            self.wake()

    def write(self, record: SampleRecord) -> None:
        """A sample is finished."""
        self.samples.append(record)
        self.work.left -= 1

    def take_grade(self, record: SampleRecord) -> None:
        """A thread has graded a sample."""
        self.grades.append(record)
        self.wake()


def grade(grader: GradeFunction, row: Row, unit: Unit) -> SampleRecord:
    """One verdict as a record. A bug in a grader is an error of that sample: the others keep their verdicts, the log
    has the traceback, and `rwkvctl regrade` does it again once the grader is mended."""
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
    """A text without half characters: no file or store takes them, and a model may write anything."""
    return text.encode("utf-8", "backslashreplace").decode()
