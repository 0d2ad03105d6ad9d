"""The scheduler with a fake model whose state is the ids it was fed, so that every mistake shows as an id."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rwkv_engine.errors import OutOfMemory
from rwkv_engine.scheduling import state_cache
from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.scheduler import MOST_STEPS_FREE, NO_MEMORY, Limits, Scheduler, SlotInput, SlotOutput
from rwkv_engine.scheduling.snapshots import Snapshot
from rwkv_engine.scheduling.state_tiers import Tiers
from rwkv_engine.scheduling.tasks import Echo, GenerateTask
from rwkv_engine.scheduling.token_scores import Score
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness
from rwkv_engine.tokenizer import END_OF_TEXT, for_vocabulary
from rwkv_kernels.draw import Mask
from rwkvctl.protocol.engine import Constraint, Continue, Generated, GenerateItem, Sampling, ScoreItem, Stops

TOKENIZER = for_vocabulary(257)
COMPILER = Compiler(TOKENIZER)
State = tuple[int, ...]


def successor(state: State, key: int, allowed: Mask | None = None) -> int:
    """Return the fake model's next token."""
    number = sum(state) * 31 + len(state) * 7 + key * 13
    if allowed is None:
        return 98 + number % 20
    able = np.flatnonzero(np.unpackbits(allowed.view(np.uint8), bitorder="little"))
    return int(able[number % len(able)])


def logprob(state: State, token: int) -> float:
    return -float((sum(state) * 17 + len(state) * 5 + token) % 97)


@dataclass
class FakeStates:
    """Slots whose state is the ids that they were fed; None marks a slot that was not cleared or loaded."""

    slots: int
    size_bytes: int = 100
    held: dict[int, State | None] = field(default_factory=dict)

    def clear(self, slot: int) -> None:
        self.held[slot] = ()

    def save(self, slot: int) -> object:
        return self.held[slot]

    def load(self, slot: int, payload: object) -> None:
        assert isinstance(payload, tuple)
        self.held[slot] = payload[1] if payload[:1] == ("host",) else payload

    def spill(self, payload: object) -> object:
        return ("host", payload)


@dataclass
class FakeOutcome:
    outputs: list[SlotOutput]

    def collect(self) -> list[SlotOutput]:
        return self.outputs


@dataclass
class FakeRunner:
    """Checks every plan and answers from the fake model. Steps in `fails` run out of memory and spoil their slots.

    As on a device, drawn tokens stay with the slots, and a slot that drew a stop token halts until its next sequence.
    """

    states: FakeStates
    prefill_tokens: int
    lag: int = 0
    fails: frozenset[int] = frozenset()
    fed: int = 0
    steps: int = 0
    drawn: dict[int, int] = field(default_factory=dict)
    halted: set[int] = field(default_factory=set)

    def launch(self, inputs: Sequence[SlotInput]) -> FakeOutcome:
        assert len({entry.slot for entry in inputs}) == len(inputs), "one slot, two sequences"
        assert all(0 <= entry.slot < self.states.slots for entry in inputs)
        assert sum(len(f.tokens) for f in inputs) <= self.prefill_tokens
        self.steps += 1
        if self.steps in self.fails:
            self.states.held = dict.fromkeys(self.states.held, (7777,))
            raise OutOfMemory
        return FakeOutcome([self._one(entry) for entry in inputs])

    def _one(self, entry: SlotInput) -> SlotOutput:
        if entry.decode and entry.slot in self.halted:
            return SlotOutput((), 98)  # what nobody may look at
        self.halted.discard(entry.slot)
        before = self.states.held[entry.slot]
        assert before is not None
        tokens = (self.drawn[entry.slot],) if entry.decode else entry.tokens
        self.fed += len(tokens)
        after = (*before, *tokens)
        self.states.held[entry.slot] = after
        scores = [Score(logprob(after[: len(before) + t.position + 1], t.token), best=True) for t in entry.targets]
        if not entry.draw:
            return SlotOutput(scores)
        sample = entry.sequence.sample
        assert sample is not None
        allowed = sample.allowed()
        assert allowed is None or entry.sequence.drawn == len(sample.ids), "drawn by a grammar that is a token behind"
        self.drawn[entry.slot] = successor(after, sample.key, allowed)
        if self.drawn[entry.slot] in sample.rule.stops.tokens:
            self.halted.add(entry.slot)
        return SlotOutput(scores, self.drawn[entry.slot])


def expected_sample(
    prompt: State, key: int, count: int, stop: int | None, constraint: Constraint | None = None
) -> tuple[int, ...]:
    state, out = prompt, []
    guide = COMPILER.grammars.compiled(constraint).begin() if constraint is not None else None
    while len(out) < count:
        token = successor(state, key, guide.allowed(out) if guide is not None else None)
        if token in {stop, END_OF_TEXT}:
            break
        out.append(token)
        state = (*state, token)
    return tuple(out)


class RetryingEngine(Scheduler):
    """Starts over after each failure without limit; other tests cover giving up."""

    def shrink(self) -> bool:
        super().shrink()
        return True


@dataclass
class Bench:
    slots: int
    prefill_tokens: int
    cache_bytes: int = 1000
    kept_bytes: int = 10_000
    host_bytes: int = 0
    lag: int = 0
    fails: frozenset[int] = frozenset()
    stubborn: bool = False
    now: float = 0.0
    results: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.states = FakeStates(self.slots)
        limits = Limits(self.slots, self.prefill_tokens, self.cache_bytes, self.kept_bytes, self.host_bytes)
        self.scheduler = (RetryingEngine if self.stubborn else Scheduler)(limits, self.states, lambda: self.now)
        self.runner = FakeRunner(self.states, self.prefill_tokens, self.lag, self.fails)
        self.engine = Engine(self.scheduler, self.runner, 1000, Liveness(None))

    def add(self, *items: GenerateItem | ScoreItem) -> None:
        for item in items:
            make = COMPILER.generate if isinstance(item, GenerateItem) else COMPILER.score
            self.scheduler.submit(make(item, self.results.append))  # type: ignore[arg-type]

    def step(self) -> None:
        self.engine.step()

    def drain(self, steps: int = 20_000) -> list[object]:
        while not self.scheduler.idle:
            self.step()
            steps -= 1
            assert steps, "the scheduler does not come to an end"
        return self.results

    def check_empty(self) -> None:
        free = self.scheduler._free
        assert sorted(free) == list(range(len(free))), "a slot leaked"
        assert self.fails or len(free) == self.slots
        assert not self.scheduler.running
        assert self.scheduler.waiting == 0
        assert not self.engine.busy, "a step is under way for nobody"


texts = st.text(alphabet="ab", max_size=4)
generates = st.builds(
    lambda text, n, count, stop, group, priority, keep: GenerateItem(
        id="", text=text, n=n, keys=tuple(range(7, 7 + n)), group=group, priority=priority, keep=keep,
        sampling=Sampling(max_tokens=count), stops=Stops(tokens=(stop,) if stop else ()),
    ),
    texts, st.integers(1, 4), st.integers(1, 6), st.sampled_from(["", "f", "k"]), st.sampled_from("xyz"),
    st.integers(0, 1), st.booleans(),
)  # fmt: skip
CHOICES = (("aba", "abb", "é", "a" * 9), ("日本", "日b", "xx"))
constrained = st.builds(
    lambda text, n, count, choices, stop: GenerateItem(
        id="", text=text, n=n, keys=tuple(range(7, 7 + n)), constraint=Constraint(choices=choices),
        sampling=Sampling(max_tokens=count), stops=Stops(end_of_text=False, tokens=(stop,) if stop else ()),
    ),
    texts, st.integers(1, 4), st.integers(1, 9), st.sampled_from(CHOICES), st.sampled_from(["", "b"]),
)  # fmt: skip
scores = st.builds(
    lambda context, continuations: ScoreItem(id="", context=context, continuations=tuple(continuations)),
    texts, st.lists(texts, min_size=1, max_size=4),
)  # fmt: skip


def check(item: GenerateItem | ScoreItem, answers: list) -> None:
    """Compare the answers of one item with the sequential reference."""
    if isinstance(item, GenerateItem):
        prompt = (0, *TOKENIZER.encode(item.text or ""))
        stop = TOKENIZER.single(item.stops.tokens[0]) if item.stops.tokens else None
        assert sorted(a.index for a in answers) == list(range(item.n))
        for a in answers:
            wanted = expected_sample(prompt, item.keys[a.index], item.sampling.max_tokens, stop, item.constraint)
            assert a.ids == wanted
            assert a.prompt_ids == prompt
        return
    assert len(answers) == 1
    context = (0, *TOKENIZER.encode(item.context or ""))
    for text, score in zip(item.continuations, answers[0].scores, strict=True):
        full = (*context, *TOKENIZER.encode(text))
        total = sum(logprob(full[:j], full[j]) for j in range(len(context), len(full)))
        assert (score.logprob, score.tokens) == (total, len(full) - len(context))


def check_kept(bench: Bench, answers: list[Generated]) -> None:
    """Check that every kept sample continues from its own state."""
    kept = {(a.id, a.index): a for a in answers if a.ttl_s}
    for number, (name, index) in enumerate(kept):
        origin = Continue(id=name, index=index, tail="q")
        bench.add(GenerateItem(id=f"then {number}", continue_from=origin, keys=(3,), sampling=Sampling(max_tokens=2)))
    bench.results.clear()
    then = {a.id: a for a in bench.drain()}
    for number, first in enumerate(kept.values()):
        after = then[f"then {number}"]
        state = (*first.prompt_ids, *first.ids, *TOKENIZER.encode("q"))
        assert after.error == "gone" or after.ids == expected_sample(state, 3, 2, None)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(generates, constrained, scores), min_size=1, max_size=14),
    st.integers(1, 5),
    st.integers(1, 9),
    st.sampled_from([0, 300, 5000]),
    st.sampled_from([0, 250]),
    st.integers(0, 2),
    st.frozensets(st.integers(1, 30), max_size=4),
)
def test_every_item_is_answered_once_and_rightly(
    items: list, slots: int, budget: int, cache_bytes: int, host_bytes: int, lag: int, fails: frozenset[int]
) -> None:
    """With any number of slots, with and without cached and spilled states, steps launched ahead, and lack of
    memory."""
    bench = Bench(slots, budget, cache_bytes, host_bytes=host_bytes, lag=lag, fails=fails, stubborn=True)
    items = [type(item)(**{**{f: getattr(item, f) for f in item.__struct_fields__}, "id": str(i)})
             for i, item in enumerate(items)]  # fmt: skip
    for i, item in enumerate(items):
        bench.add(item)
        if i % 3 == 0:
            bench.step()
    answers = list(bench.drain())
    for item in items:
        check(item, [a for a in answers if a.id == item.id])
    assert bench.scheduler.counters.finished == len(items)
    check_kept(bench, [a for a in answers if isinstance(a, Generated)])
    bench.check_empty()
    tiers = bench.scheduler.cache.tiers
    assert tiers.on_device <= cache_bytes
    assert tiers.on_host <= host_bytes


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(generates, constrained, scores), min_size=2, max_size=10),
    st.integers(1, 3),
    st.integers(0, 12),
    st.integers(0, 1),
    st.data(),
)
def test_cancelled_items_leave_nothing_behind(
    items: list, slots: int, steps: int, lag: int, data: st.DataObject
) -> None:
    bench = Bench(slots, 4, lag=lag)
    gone = data.draw(st.sets(st.integers(0, len(items) - 1)))
    tasks = []
    for item in items:
        make = COMPILER.generate if isinstance(item, GenerateItem) else COMPILER.score
        tasks.append(make(item, bench.results.append))
        bench.scheduler.submit(tasks[-1])
    for _ in range(steps):
        bench.step()
    doomed = {id(tasks[i]) for i in gone}
    bench.scheduler.cancel(lambda task: id(task) in doomed)
    bench.step()  # as the engine's thread does after it has taken a cancellation in
    before = len(bench.results)
    bench.drain()
    bench.check_empty()
    survivors = sum(t.open_sequences == 0 for i, t in enumerate(tasks) if i not in gone)
    assert survivors == len(items) - len(gone)
    assert len(bench.results) >= before


def test_the_shared_context_of_choices_is_fed_once() -> None:
    bench = Bench(2, 100)
    bench.add(ScoreItem(id="a", context="x" * 40, continuations=("ab", "cd", "ef", "g")))
    bench.drain()
    assert bench.runner.fed == 41 + 3  # token 0, the context, and the first letter of each choice of two


def test_samples_of_one_prompt_prefill_it_once() -> None:
    bench = Bench(3, 100)
    bench.add(GenerateItem(id="a", text="x" * 40, n=5, sampling=Sampling(max_tokens=2)))
    bench.drain()
    assert bench.runner.fed == 41 + 5


def test_a_repeated_prompt_and_a_shared_beginning_come_from_the_cache() -> None:
    bench = Bench(1, 100, cache_bytes=10_000)
    item = GenerateItem(id="a", text="y" * 30, sampling=Sampling(max_tokens=1))
    bench.add(item, item)
    bench.drain()
    assert bench.runner.fed == 31
    assert [r.usage.cached for r in bench.results] == [0, 31]
    for i in range(3):
        bench.add(GenerateItem(id="b", text="z" * 50 + str(i), sampling=Sampling(max_tokens=1)))
    bench.drain()
    assert [r.usage.cached for r in bench.results[2:]] == [0, 0, 51]


@pytest.mark.parametrize("lag", [0, 1])
def test_continue_from_goes_on_where_the_sample_stopped(lag: int) -> None:
    bench = Bench(2, 100, cache_bytes=0, lag=lag)
    for stops in (Stops(), Stops(tokens=("k",)), Stops(suffixes=("k",))):
        bench.results.clear()
        bench.add(GenerateItem(id="a", text="hello", keep=True, sampling=Sampling(max_tokens=6), stops=stops))
        (first,) = bench.drain()
        assert first.ttl_s > 0
        bench.add(GenerateItem(id="b", continue_from=Continue(id="a", tail="tail"), sampling=Sampling(max_tokens=4)))
        bench.drain()
        ids = (*first.prompt_ids, *first.ids, *TOKENIZER.encode("tail"))
        bench.add(GenerateItem(id="c", ids=ids, sampling=Sampling(max_tokens=4)))
        bench.drain()
        assert bench.results[1].ids == bench.results[2].ids
        assert bench.results[1].prompt_ids == ids
        assert bench.results[1].usage.cached >= len(ids) - len("tail") - 1


def test_scoring_goes_on_from_a_kept_sample() -> None:
    bench = Bench(2, 100)
    bench.add(GenerateItem(id="a", text="hello", keep=True, sampling=Sampling(max_tokens=3)))
    (first,) = bench.drain()
    bench.add(ScoreItem(id="b", continue_from=Continue(id="a", tail="so"), continuations=("x", "yz")))
    scored = bench.drain()[1]
    context = (*first.prompt_ids, *first.ids, *TOKENIZER.encode("so"))
    x, y, z = (TOKENIZER.single(c) for c in "xyz")
    wanted = [logprob(context, x), logprob(context, y) + logprob((*context, y), z)]
    assert [s.logprob for s in scored.scores] == wanted


def test_a_kept_sample_goes_when_its_time_or_the_room_is_over() -> None:
    bench = Bench(1, 100, kept_bytes=250)
    for name in "abc":
        bench.add(GenerateItem(id=name, text=name, keep=True, sampling=Sampling(max_tokens=1)))
    bench.drain()
    assert len(bench.scheduler.kept) == 2
    for name in "ac":
        bench.add(GenerateItem(id=f"{name}2", continue_from=Continue(id=name), sampling=Sampling(max_tokens=1)))
    bench.drain()
    assert [(r.stop, r.error) for r in bench.results[3:]] == [("error", "gone"), ("length", "")]
    bench.now = 1e6
    bench.add(GenerateItem(id="c3", continue_from=Continue(id="c"), n=2, sampling=Sampling(max_tokens=1)))
    bench.drain()
    assert [r.error for r in bench.results[5:]] == ["gone", "gone"]
    assert bench.scheduler.kept.tiers.on_device == 0


def test_groups_take_turns_and_priority_goes_first() -> None:
    bench = Bench(1, 100)
    for i in range(4):
        bench.add(GenerateItem(id=f"big{i}", text="a", group="big", sampling=Sampling(max_tokens=1)))
    bench.add(GenerateItem(id="small", text="a", group="small", sampling=Sampling(max_tokens=1)))
    bench.add(GenerateItem(id="urgent", text="a", group="big", priority=5, sampling=Sampling(max_tokens=1)))
    assert [r.id for r in bench.drain()] == ["urgent", "big0", "small", "big1", "big2", "big3"]


def test_a_finished_slot_is_refilled_in_the_next_step() -> None:
    bench = Bench(2, 100)
    bench.add(*(GenerateItem(id=str(i), text="a", sampling=Sampling(max_tokens=1 + 3 * (i % 2))) for i in range(6)))
    while bench.scheduler.waiting:
        bench.step()
        assert len(bench.scheduler.plan()) == 2


def test_of_many_slots_a_few_are_filled_together_and_none_stays_free_for_long() -> None:
    """Answers of many lengths in 96 slots: three slots at a time, or one that has been free for eight steps."""
    bench = Bench(96, 10_000)
    bench.add(*(GenerateItem(id=str(i), text="a", sampling=Sampling(max_tokens=5 + i * 37 % 90)) for i in range(400)))
    filled, since = [], 0
    while bench.scheduler.waiting:
        before, free = bench.scheduler.waiting, len(bench.scheduler._free)
        bench.step()
        if begun := before - bench.scheduler.waiting:
            filled.append(begun)
            assert begun == min(free, before)
            assert begun >= 3 or since == MOST_STEPS_FREE or before < 3
        since = 0 if begun or not free else since + 1
        assert since <= MOST_STEPS_FREE
    assert filled[0] == 96
    assert {1, 2} & set(filled), "no slot had to wait for eight steps"
    assert len([begun for begun in filled if begun >= 3]) > 20
    assert len(bench.drain()) == 400


def test_an_empty_continuation_scores_nothing() -> None:
    bench = Bench(1, 100)
    bench.add(
        ScoreItem(id="a", context="abc", continuations=("", "d")), ScoreItem(id="b", context="abc", continuations=("",))
    )
    a, b = sorted(bench.drain(), key=lambda r: r.id)
    assert [s.tokens for s in a.scores] == [0, 1]
    assert [s.tokens for s in b.scores] == [0]
    assert bench.runner.fed == 4


def test_scoring_again_uses_no_state_beyond_the_first_scored_token() -> None:
    bench = Bench(1, 100, cache_bytes=10_000)
    item = ScoreItem(id="a", context="abc", continuations=("defg",))
    bench.add(item, item, GenerateItem(id="b", text="abcdef", sampling=Sampling(max_tokens=1)), item)
    scores = [r for r in bench.drain() if r.id == "a"]
    assert scores[0].scores == scores[1].scores == scores[2].scores
    assert [r.usage.cached for r in scores] == [0, 4, 4]


def test_a_hash_collision_lends_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_cache, "prefix_keys", lambda ids: iter(range(1, len(ids) + 1)))
    found = state_cache.PrefixCache(Tiers(1000, 0, lambda payload: payload))
    found.put((0, 1, 2), Snapshot(3, None, 10))
    assert found.find((0, 1, 3), 3, lambda _: True) is None
    assert found.find((0, 1, 2, 4), 4, lambda _: True) is not None
    assert (found.hits, found.misses) == (1, 1)


def test_a_state_that_is_saved_again_replaces_the_one_before_it() -> None:
    """Else the old one would take its budget for ever, and the new one would be forgotten as the old one is evicted."""
    tiers = Tiers(100, 0, lambda payload: payload)
    prefixes, kept = state_cache.PrefixCache(tiers), state_cache.KeptSamples(tiers, ttl_s=10.0)
    for _ in range(5):
        prefixes.put((1, 2), Snapshot(2, "prefix", 10))
        kept.put(("a", 0), (1, 2, 3), Snapshot(3, "sample", 10), 0.0)
    assert tiers.on_device == 2 * 10 + 5 * state_cache.ID_BYTES
    assert prefixes.find((1, 2), 2, lambda _: True) is not None
    assert kept.get(("a", 0), 0.0) is not None


def test_a_kept_sample_that_is_used_is_kept_for_as_long_again() -> None:
    kept = state_cache.KeptSamples(Tiers(100, 0, lambda payload: payload), ttl_s=10.0)
    kept.put(("a", 0), (1,), None, 0.0)
    assert [kept.get(("a", 0), at) is not None for at in (9.0, 18.0, 28.0)] == [True, True, False]


def test_what_does_not_fit_even_alone_is_answered_with_an_error_and_others_go_on() -> None:
    bench = Bench(4, 32, fails=frozenset(range(1, 4)))
    bench.add(*(GenerateItem(id=str(i), text="hello", sampling=Sampling(max_tokens=2)) for i in range(3)))
    results = bench.drain()
    assert (bench.engine.shrunk, len(bench.scheduler._free), bench.scheduler.prefill_tokens) == (3, 1, 16)
    assert [r.error for r in results] == [NO_MEMORY, "", ""]
    assert [r.ids for r in results[1:]] == [expected_sample((0, *TOKENIZER.encode("hello")), 0, 2, None)] * 2


def test_a_prefix_that_left_the_device_is_found_in_the_hosts_memory() -> None:
    bench = Bench(1, 100, cache_bytes=132, host_bytes=400)  # 100 of state, 32 of ids
    for name in ("aaa", "bbb", "ccc", "aaa", "bbb"):
        bench.add(GenerateItem(id=name, text=name, sampling=Sampling(max_tokens=1)))
    assert [r.usage.cached for r in bench.drain()] == [0, 0, 0, 4, 4]
    tiers = bench.scheduler.cache.tiers
    assert (tiers.on_device, tiers.on_host, tiers.spills) == (132, 264, 2)
    assert bench.scheduler.cache.saved_tokens == 8


def test_states_give_way_to_a_copy_that_finds_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(1, 100, cache_bytes=10_000)
    bench.add(GenerateItem(id="a", text="aaa", sampling=Sampling(max_tokens=1)))
    bench.drain()
    save, full = FakeStates.save, [True]

    def scarce(self: FakeStates, slot: int) -> object:
        if bench.scheduler.cache.tiers.on_device or full[0] is None:
            raise OutOfMemory
        return save(self, slot)

    monkeypatch.setattr(FakeStates, "save", scarce)
    bench.add(GenerateItem(id="b", text="bbb", n=2, sampling=Sampling(max_tokens=1)))
    assert [r.error for r in bench.drain()] == ["", "", ""]
    full[0] = None
    bench.add(GenerateItem(id="c", text="ccc", n=2, sampling=Sampling(max_tokens=1)))
    assert [r.error for r in bench.drain()[3:]] == [NO_MEMORY] * 2
    bench.check_empty()


def echoing(text: str, top: int = 0) -> GenerateTask:
    task = COMPILER.generate(GenerateItem(id="", text=text, sampling=Sampling(max_tokens=1)), lambda _: None)
    task.echo = Echo(1, top)
    return task


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([40, 50]), st.text(alphabet="ab", max_size=3), st.booleans()), max_size=12),
    st.integers(1, 3),
    st.integers(0, 1),
)
def test_a_scored_prompt_takes_the_scores_of_what_it_shares_from_the_cache(asked: list, slots: int, lag: int) -> None:
    bench = Bench(slots, 16, cache_bytes=100_000, lag=lag)
    tasks = [echoing("x" * length + text) for length, text, _ in asked]
    for task, (length, text, scored) in zip(tasks, asked, strict=True):
        if not scored:
            task.echo = None
        bench.scheduler.submit(task)
        assert task.prompt == (0, *TOKENIZER.encode("x" * length + text))
    bench.drain()
    for task in tasks:
        places = range(1, len(task.prompt)) if task.echo else ()
        assert {place: score.logprob for place, score in task.scores.items()} == {
            place: logprob(task.prompt[:place], task.prompt[place]) for place in places
        }


def test_choices_that_share_a_context_are_scored_at_the_price_of_one() -> None:
    bench = Bench(1, 1000, cache_bytes=100_000)
    for choice in "abcd":
        bench.scheduler.submit(echoing("x" * 99 + choice))
    bench.drain()
    assert bench.runner.fed == 101 + 101 + 1 + 1  # the second learns what is shared
    again = echoing("x" * 99 + "e", top=1)
    bench.scheduler.submit(again)
    bench.drain()
    assert again.cached == 0  # more is asked for than was kept
