"""The input of each slot in the next step, and what follows from its output. Torch-free.

`plan()` returns inputs, the runner launches them, `launched()` counts them, `apply()` takes their outputs: at once, or
while the next step already runs. Every running sample is fed its one token in every step; prompts share
`prefill_tokens` a step, oldest first, so the oldest always moves. On an engine of few slots a slot that becomes free is
filled by the next plan; on one of many, a few free slots are filled together.
"""

import heapq
from collections import abc
from collections.abc import Callable
from dataclasses import dataclass, field

from rwkv_engine.errors import OutOfMemory
from rwkv_engine.scheduling.fair_queue import FairQueue
from rwkv_engine.scheduling.sample import Sample
from rwkv_engine.scheduling.sequence import Sequence, Task
from rwkv_engine.scheduling.snapshots import Snapshot, States
from rwkv_engine.scheduling.state_cache import KeptSamples, PrefixCache
from rwkv_engine.scheduling.state_tiers import Tiers
from rwkv_engine.scheduling.tasks import MAX_PROMPT_TOKENS, GenerateTask, ScoreTask
from rwkv_engine.scheduling.token_scores import Score, Target

LEAST_PREFILL_TOKENS = 16
# A step with prompts reads all weights once more: at 1.5B on an H200 1.7 ms, beside the 7 ms in which 512 slots decode.
# So prompts begin together once 1 slot in 32 is free, and no slot stays free for more than 8 steps. By the model in
# bench/filled_slots.py that gives 62,000 tokens/s instead of 56,000.
SLOTS_FILLED_TOGETHER = 1 / 32
MOST_STEPS_FREE = 8
SCORE_BYTES, LIKELY_BYTES = 200, 130  # of a score, and of each likely token beside it, as Python holds them
NO_MEMORY = "the engine has not enough memory for this request, although it has dropped every saved state"


@dataclass(frozen=True, slots=True)
class SlotInput:
    """The input of one slot in a step. Target positions count within `tokens`; -1 is the token before them.

    `decode`: feed the token that was drawn last for the slot, which the host may not know yet. `last`: none of the
    sequence's own tokens is left after it.
    """

    sequence: Sequence
    slot: int
    tokens: abc.Sequence[int]
    targets: abc.Sequence[Target]
    decode: bool
    last: bool

    @property
    def draw(self) -> bool:
        """Draw a token after the last one (after none, if nothing is fed: from the state's own last output)."""
        return self.last and self.sequence.sample is not None


@dataclass(frozen=True, slots=True)
class SlotOutput:
    """The output of one slot: a score for each target, the drawn token (-1: not finite), its score if asked for."""

    scores: abc.Sequence[Score] = ()
    token: int | None = None
    logprob: Score | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes fixed when the engine starts. `host_bytes`: of spilled states, for prefixes and kept samples each."""

    slots: int
    prefill_tokens: int = 256
    cache_bytes: int = 256 << 20
    kept_bytes: int = 512 << 20
    host_bytes: int = 0
    kept_ttl_s: float = 600.0


@dataclass(slots=True)
class Counters:
    """What the scheduler has done since it started."""

    prefill_tokens: int = 0
    decode_tokens: int = 0
    finished: int = 0


@dataclass(slots=True)
class Scheduler:
    """Owns slots, queue and caches; the states themselves belong to `states`.

    `states_lost`: a step failed, and until all sequences are set back no slot's state may be saved.
    """

    limits: Limits
    states: States
    clock: Callable[[], float]
    cache: PrefixCache = field(init=False)
    kept: KeptSamples = field(init=False)
    prefill_tokens: int = field(init=False)
    states_lost: bool = False
    counters: Counters = field(default_factory=Counters)
    running: dict[int, Sequence] = field(default_factory=dict)
    _waiting: FairQueue[Task] = field(default_factory=FairQueue)
    _endings: list[Sequence] = field(default_factory=list)
    _free: list[int] = field(init=False)
    _steps_free: int = 0
    _prefix_not_looked_up: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        limits = self.limits
        self.cache = PrefixCache(Tiers(limits.cache_bytes, limits.host_bytes, self.states.spill))
        self.kept = KeptSamples(Tiers(limits.kept_bytes, limits.host_bytes, self.states.spill), limits.kept_ttl_s)
        self.prefill_tokens = limits.prefill_tokens
        self._free = list(range(limits.slots))

    @property
    def waiting(self) -> int:
        """Number of tasks that have not begun."""
        return len(self._waiting)

    @property
    def slots(self) -> int:
        """Number of sequences run at once: fewer than at the start after running out of memory."""
        return len(self._free) + len(self.running)

    @property
    def idle(self) -> bool:
        return not (self.running or self._waiting or self._endings)

    def submit(self, task: Task) -> None:
        self._waiting.push(task, task.priority, task.group)

    def cancel(self, condition: Callable[[Task], bool]) -> list[Task]:
        """End the tasks that fulfil the condition without an answer; their slots are free at once."""
        tasks = self._waiting.remove(condition)
        for slot, sequence in list(self.running.items()):
            if condition(sequence.task):
                self._release(slot)
                tasks.append(sequence.task)
        tasks += [sequence.task for sequence in self._endings if condition(sequence.task)]
        self._endings = [sequence for sequence in self._endings if not condition(sequence.task)]
        unique = list({id(task): task for task in tasks}.values())
        for task in unique:
            task.ended = True
        return unique

    def plan(self) -> list[SlotInput]:
        """Fill free slots, then return the inputs of the next step; none if an outcome must come first."""
        self._admit()
        budget = self.prefill_tokens
        inputs: list[SlotInput] = []
        for slot, sequence in self.running.items():
            if sequence.launched:
                if sequence.sample is not None and _goes_on(sequence, sequence.sample):
                    inputs.append(SlotInput(sequence, slot, (), (), decode=True, last=True))
            elif budget > 0 or not sequence.tokens:
                if slot in self._prefix_not_looked_up:
                    sequence = self._at_saved_prefix(slot)  # noqa: PLW2901
                count = min(len(sequence.tokens), sequence.next_mark(), sequence.fed + budget) - sequence.fed
                inputs.append(_slot_input(sequence, slot, sequence.fed + count))
                budget -= count
        return inputs

    def launched(self, inputs: abc.Sequence[SlotInput]) -> None:
        """Count a step that the runner took, and save states in its order, before anything else is launched."""
        for entry in inputs:
            sequence = entry.sequence
            self._count(entry)
            sequence.launch(len(entry.tokens), draws=entry.draw)
            if sequence.root and not entry.decode:
                self._save(sequence, entry.slot)

    def apply(self, inputs: abc.Sequence[SlotInput], outputs: abc.Sequence[SlotOutput]) -> None:
        """Apply the outputs of a step; finished answers go to their tasks' sinks."""
        for entry, output in zip(inputs, outputs, strict=True):
            sequence = entry.sequence
            if self.running.get(entry.slot) is not sequence:
                continue  # it stopped, or was cancelled, after this step was launched
            for target, score in zip(entry.targets, output.scores, strict=True):
                sequence.task.add(target, score)
            if entry.last:
                self._after(sequence, entry.slot, output)

    def set_back(self) -> None:
        """Free all slots and queue their sequences to start over; every outcome must have been applied."""
        sequences = [sequence for _, sequence in sorted(self.running.items())]
        for slot in list(self.running):
            self._release(slot)
        for sequence in sequences:
            sequence.set_back()
        self.states_lost = False
        self._endings = sequences + self._endings

    def shrink(self) -> bool:
        """Reduce memory use after running out: drop the states saved on the device or, where there are none, use fewer
        slots and shorter chunks. Returns False if nothing is left to give up."""
        self.set_back()
        if any(tiers.on_device for tiers in self.tiers):
            self._clear_device()
            return True
        if len(self._free) == 1 and self.prefill_tokens <= LEAST_PREFILL_TOKENS:
            return False
        self._free = sorted(self._free)[: max(1, len(self._free) // 2)]
        self.prefill_tokens = min(self.prefill_tokens, max(LEAST_PREFILL_TOKENS, self.prefill_tokens // 2))
        return True

    def _count(self, entry: SlotInput) -> None:
        if entry.decode:
            self.counters.decode_tokens += 1
        else:
            self.counters.prefill_tokens += len(entry.tokens)

    def _admit(self) -> None:
        """Fill the free slots, unless it is better to wait for more of them."""
        if not self._free or not (self._endings or self._waiting):
            return
        if len(self._free) < SLOTS_FILLED_TOGETHER * self.slots and self._steps_free < MOST_STEPS_FREE:
            self._steps_free += 1
            return
        self._steps_free = 0
        while self._free and (self._endings or self._waiting):
            if self._endings:
                self._start(self._endings.pop(0))
            else:
                self._begin(self._waiting.pop())

    def _begin(self, task: Task) -> None:
        """Give a task a slot, or answer it at once if there is nothing to run."""
        origin: Snapshot | None = None
        if task.tail is not None:
            kept = self.kept.get((task.tail.id, task.tail.index), self.clock())
            if kept is None:
                self._answer_all(task, "gone")
                return
            task.continue_after(kept.ids)
            if len(task.prompt) > MAX_PROMPT_TOKENS + 1:
                self._answer_all(task, f"the prompt would have more than {MAX_PROMPT_TOKENS} tokens")
                return
            origin = kept.snapshot
        if not task.prompt:
            self._finish(task)
            return
        marks = [self.cache.shared_with_last(task.group, task.prompt), task.saves]
        task.open_sequences = 1
        slot = self._start(_root(task, origin, marks))
        if origin is None:
            self._prefix_not_looked_up.add(slot)

    def _at_saved_prefix(self, slot: int) -> Sequence:
        """Return the slot's root, moved to its longest saved prefix. The prefix is looked up only now that the root is
        to be fed, so that tasks which took their slots together profit from the first of them."""
        self._prefix_not_looked_up.discard(slot)
        root = self.running[slot]
        origin = self.cache.find(root.task.prompt, root.task.reusable, root.task.fits)
        if origin is not None:
            self.states.load(slot, origin.payload)
            self.running[slot] = _root(root.task, origin, root.marks)
        return self.running[slot]

    def _start(self, sequence: Sequence) -> int:
        slot = heapq.heappop(self._free)
        self.running[slot] = sequence
        if sequence.origin is None:
            self.states.clear(slot)
        else:
            self.states.load(slot, sequence.origin.payload)
        return slot

    def _save(self, root: Sequence, slot: int) -> None:
        """Save the state of a prompt where the cache or the task's endings want it."""
        task = root.task
        forks = root.launched and task.forks
        if root.fed not in root.marks and not forks:
            return
        snapshot = self._snapshot(slot, task.cached + root.fed)
        if snapshot is None:
            if forks:
                self._release(slot)
                self._answer_all(task, NO_MEMORY)
            return
        if root.fed in root.marks:
            if isinstance(task, GenerateTask) and task.echo:
                snapshot.scores = task.scores
                snapshot.size_bytes += len(task.prompt) * (SCORE_BYTES + LIKELY_BYTES * task.echo.top)
            self.cache.put(task.prompt[: snapshot.length], snapshot)
        if forks:
            endings = task.endings(snapshot)
            task.open_sequences += len(endings)
            self._endings += endings

    def _snapshot(self, slot: int, length: int) -> Snapshot | None:
        """Return a copy of the slot's state, evicting cached ones for it; None if there is no room even so."""
        if self.states_lost:
            return None
        for last_try in (False, True):
            try:
                return Snapshot(length, self.states.save(slot), self.states.size_bytes)
            except OutOfMemory:
                if not last_try:
                    self._clear_device()
        return None

    @property
    def tiers(self) -> tuple[Tiers, Tiers]:
        """The tiers of saved states: of prefixes, and of kept samples."""
        return self.cache.tiers, self.kept.tiers

    def _clear_device(self) -> None:
        for tiers in self.tiers:
            tiers.clear_device()

    def _after(self, sequence: Sequence, slot: int, output: SlotOutput) -> None:
        """Handle the output of a sequence's last input: add the drawn token, and end the sequence if it is finished."""
        if sequence.sample is None:
            self._end(sequence, slot)
            return
        assert output.token is not None
        sequence.sample.add(output.token, output.logprob)
        if sequence.sample.stop is None:
            return
        assert isinstance(sequence.task, GenerateTask)
        ttl_s = self._keep(sequence.task, sequence, sequence.sample, slot)
        sequence.task.sink(sequence.task.answer(sequence.part, sequence.sample, ttl_s))
        self._end(sequence, slot)

    def _keep(self, task: GenerateTask, sequence: Sequence, sample: Sample, slot: int) -> float:
        """Keep a finished sample if its task asks for that. If the state is past the answer's end, keep the ids
        alone."""
        if not task.keep or sample.stop == "error":
            return 0.0
        # a runner that is a step ahead halts by itself at a stop token; the last drawn token was not fed
        ahead = 0 if sample.stop == "stop_token" else sequence.drawn - len(sample.ids)
        behind = len(task.prompt) + len(sample.ids) - 1 + ahead
        ids = task.prompt + sample.answer
        snapshot = self._snapshot(slot, behind) if behind <= len(ids) else None
        return self.kept.put((task.id, sequence.part), ids, snapshot, self.clock())

    def _end(self, sequence: Sequence, slot: int) -> None:
        self._release(slot)
        sequence.task.open_sequences -= 1
        if sequence.task.open_sequences == 0:
            self._finish(sequence.task)

    def _finish(self, task: Task) -> None:
        self.counters.finished += 1
        task.ended = True
        if isinstance(task, ScoreTask):
            task.sink(task.answer())

    def _answer_all(self, task: Task, error: str) -> None:
        self.counters.finished += 1
        task.ended = True
        for result in task.failure(error):
            task.sink(result)

    def _release(self, slot: int) -> None:
        del self.running[slot]
        self._prefix_not_looked_up.discard(slot)
        heapq.heappush(self._free, slot)


def _root(task: Task, origin: Snapshot | None, marks: abc.Sequence[int]) -> Sequence:
    """Return the sequence that feeds a task's prompt from `origin` on; `marks` count from the prompt's beginning."""
    task.cached = origin.length if origin else 0
    root = task.root(task.prompt[task.cached :], origin)
    root.marks = [mark - task.cached for mark in marks if mark > task.cached]
    return root


def _goes_on(sequence: Sequence, sample: Sample) -> bool:
    """Whether another token may be drawn before the outcome of the last one is known. A sample's length is known then;
    the tokens that a grammar allows are not, so a sample with a grammar waits."""
    if sample.rule.grammar is not None and sequence.drawn > len(sample.ids):
        return False
    return sequence.drawn < sample.rule.sampling.max_tokens


def _slot_input(sequence: Sequence, slot: int, end: int) -> SlotInput:
    """Return the input with a sequence's tokens up to `end`; it draws if they are its last and it has a sample."""
    start = sequence.fed
    low = start if sequence.begun else -1
    targets = [Target(t.position - start, t.token, t.part, t.top) for t in sequence.targets_in(low, end)]
    return SlotInput(
        sequence, slot, sequence.tokens[start:end], targets, decode=False, last=end == len(sequence.tokens)
    )
