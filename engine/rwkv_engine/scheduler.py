"""Which slot is fed what in the next step, and what follows from what came out. Torch-free.

`plan()` gives a value, the runner turns it into `Output`s, `apply()` takes them. Every running sample is fed its one
token in every step; prompts share `prefill_tokens` a step, oldest first, so the oldest always moves. A slot that
becomes free is filled by the next plan.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rwkv_engine.cache import KeptSamples, PrefixCache
from rwkv_engine.sample import Sample
from rwkv_engine.strand import Snapshot, States, Strand, Target
from rwkv_engine.tasks import AnyTask, GenerateTask
from rwkv_engine.waiting import FairQueue
from rwkv_kernels.draw import Draw


@dataclass(frozen=True, slots=True)
class Feed:
    """One slot's part of a step. Target positions count within `tokens`; -1 is the token before them.

    `draw`: draw a token after the last one (after none, if `tokens` is empty: from the state's own last output).
    """

    strand: Strand
    slot: int
    tokens: Sequence[int]
    targets: Sequence[Target]
    draw: Draw | None


@dataclass(frozen=True, slots=True)
class Output:
    """What a feed gave: (log-probability, was it the best) for each target, and the drawn token (-1: not finite)."""

    scores: Sequence[tuple[float, bool]] = ()
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes fixed when the engine starts."""

    slots: int
    prefill_tokens: int = 256
    cache_bytes: int = 256 << 20
    kept_bytes: int = 512 << 20
    kept_ttl_s: float = 600.0


@dataclass(slots=True)
class Counters:
    """What the scheduler has done since it started."""

    prefill_tokens: int = 0
    decode_tokens: int = 0
    finished: int = 0


@dataclass(slots=True)
class Scheduler:
    """Owns slots, queue and caches; the states themselves belong to `states`."""

    limits: Limits
    states: States
    clock: Callable[[], float]
    cache: PrefixCache = field(init=False)
    kept: KeptSamples = field(init=False)
    counters: Counters = field(default_factory=Counters)
    running: dict[int, Strand] = field(default_factory=dict)
    _waiting: FairQueue[AnyTask] = field(default_factory=FairQueue)
    _endings: list[Strand] = field(default_factory=list)
    _free: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.cache = PrefixCache(self.limits.cache_bytes)
        self.kept = KeptSamples(self.limits.kept_bytes, self.limits.kept_ttl_s)
        self._free = list(range(self.limits.slots))

    @property
    def waiting(self) -> int:
        """Tasks that have not begun."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        return not (self.running or self._waiting or self._endings)

    def submit(self, task: AnyTask) -> None:
        self._waiting.push(task, task.priority, task.group)

    def cancel(self, condition: Callable[[AnyTask], bool]) -> list[AnyTask]:
        """End the tasks that fulfil the condition without an answer; their slots are free at once."""
        tasks = self._waiting.remove(condition)
        for slot, strand in list(self.running.items()):
            if condition(strand.task):
                self._release(slot)
                tasks.append(strand.task)
        tasks += [strand.task for strand in self._endings if condition(strand.task)]
        self._endings = [strand for strand in self._endings if not condition(strand.task)]
        unique = list({id(task): task for task in tasks}.values())
        for task in unique:
            task.ended = True
        return unique

    def plan(self) -> list[Feed]:
        """Fill free slots, then say what every slot is fed. Empty if there is nothing to run."""
        self._admit()
        budget = self.limits.prefill_tokens
        feeds: list[Feed] = []
        for slot, strand in self.running.items():
            if strand.decoding:
                feeds.append(_feed(strand, slot, len(strand.tokens)))
            elif budget > 0 or not strand.tokens:
                count = min(len(strand.tokens), strand.next_mark(), strand.fed + budget) - strand.fed
                feeds.append(_feed(strand, slot, strand.fed + count))
                budget -= count
        return feeds

    def apply(self, feeds: Sequence[Feed], outputs: Sequence[Output]) -> None:
        """Take a step's outcome; finished answers go to their tasks' sinks."""
        for feed, output in zip(feeds, outputs, strict=True):
            strand = feed.strand
            self._count(strand, len(feed.tokens))
            strand.fed += len(feed.tokens)
            for target, score in zip(feed.targets, output.scores, strict=True):
                strand.task.add(target.part, *score)  # type: ignore[union-attr]
            if strand.root and not strand.decoding:
                self._save(strand, feed.slot)
            if strand.fed == len(strand.tokens):
                self._after(strand, feed.slot, output)

    def _count(self, strand: Strand, tokens: int) -> None:
        if strand.decoding:
            self.counters.decode_tokens += tokens
        else:
            self.counters.prefill_tokens += tokens

    def _admit(self) -> None:
        while self._free and (self._endings or self._waiting):
            if self._endings:
                self._start(self._endings.pop(0))
            else:
                self._begin(self._waiting.pop())

    def _begin(self, task: AnyTask) -> None:
        """Start a task at its longest saved prefix, or answer at once where nothing is to be run."""
        origin: Snapshot | None = None
        if task.tail is not None:
            kept = self.kept.get((task.tail.id, task.tail.index), self.clock())
            if kept is None:
                self._answer_all(task, "gone")
                return
            task.continue_after(kept.ids)
            origin = kept.snapshot
        if not task.prompt:
            self._finish(task)
            return
        if origin is None:
            origin = self.cache.find(task.prompt, task.reusable)
        task.cached = origin.length if origin else 0
        root = task.root(task.prompt[task.cached :], origin)
        shared = self.cache.shared_with_last(task.group, task.prompt)
        root.marks = [mark - task.cached for mark in (shared, task.reusable) if mark > task.cached]
        task.open_strands = 1
        self._start(root)

    def _start(self, strand: Strand) -> None:
        slot = heapq.heappop(self._free)
        self.running[slot] = strand
        if strand.origin is None:
            self.states.clear(slot)
        else:
            self.states.load(slot, strand.origin.payload)

    def _save(self, root: Strand, slot: int) -> None:
        """Save the state of a prompt where the cache or the task's endings want it."""
        task = root.task
        ended = root.fed == len(root.tokens)
        if root.fed not in root.marks and not (ended and task.forks):
            return
        snapshot = self._snapshot(slot, task.cached + root.fed)
        if root.fed in root.marks:
            self.cache.put(task.prompt[: snapshot.length], snapshot)
        if ended and task.forks:
            endings = task.endings(snapshot)
            task.open_strands += len(endings)
            self._endings += endings

    def _snapshot(self, slot: int, length: int) -> Snapshot:
        return Snapshot(length, self.states.save(slot), self.states.size_bytes)

    def _after(self, strand: Strand, slot: int, output: Output) -> None:
        """The strand was fed all it had: take the drawn token, and end it or go on."""
        if strand.sample is None:
            self._end(strand, slot)
            return
        assert output.token is not None
        strand.sample.add(output.token)
        if strand.sample.stop is None:
            strand.tokens, strand.fed, strand.decoding = (output.token,), 0, True
            return
        assert isinstance(strand.task, GenerateTask)
        ttl_s = self._keep(strand.task, strand.part, strand.sample, slot)
        strand.task.sink(strand.task.answer(strand.part, strand.sample, ttl_s))
        self._end(strand, slot)

    def _keep(self, task: GenerateTask, index: int, sample: Sample, slot: int) -> float:
        """Hold a finished sample if asked to. Where the state has run past the answer's end, its ids alone are held."""
        if not task.keep or sample.stop == "error":
            return 0.0
        behind = len(task.prompt) + len(sample.ids) - 1  # the last drawn token was not fed
        ids = task.prompt + sample.answer
        snapshot = self._snapshot(slot, behind) if behind <= len(ids) else None
        return self.kept.put((task.id, index), ids, snapshot, self.clock())

    def _end(self, strand: Strand, slot: int) -> None:
        self._release(slot)
        strand.task.open_strands -= 1
        if strand.task.open_strands == 0:
            self._finish(strand.task)

    def _finish(self, task: AnyTask) -> None:
        self.counters.finished += 1
        task.ended = True
        if not isinstance(task, GenerateTask):
            task.sink(task.answer())

    def _answer_all(self, task: AnyTask, error: str) -> None:
        self.counters.finished += 1
        task.ended = True
        for result in task.failure(error):
            task.sink(result)

    def _release(self, slot: int) -> None:
        del self.running[slot]
        heapq.heappush(self._free, slot)


def _feed(strand: Strand, slot: int, end: int) -> Feed:
    """Feed a strand's tokens up to `end`; draw if they are its last and it is sampled."""
    start = strand.fed
    low = -1 if start == 0 else start
    targets = [Target(t.position - start, t.token, t.part) for t in strand.targets_in(low, end)]
    last = end == len(strand.tokens)
    draw = strand.sample.draw() if last and strand.sample is not None else None
    return Feed(strand, slot, strand.tokens[start:end], targets, draw)
