"""Scheduler, runner and model on the built-in checkpoint: same answers in any batch, slot, chunking and cache."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from vocabularies import vocabulary

from rwkv_engine.cpu.model import Model
from rwkv_engine.cpu.runner import Runner
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_engine.errors import ItemError
from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.scheduler import Limits, Scheduler
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness
from rwkv_weights.formats import load
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.protocol.engine import Continue, Generated, GenerateItem, Sampling, Scored, ScoreItem, Stops
from rwkvctl.protocol.numerics import Numerics

TOKENIZER = vocabulary(257)
WORLD = vocabulary(65536)
COMPILER = Compiler(TOKENIZER)


@cache
def model(numerics: Numerics) -> Model:
    torch.set_num_threads(1)
    found = load.load(builtin_checkpoint_path())
    return Model.of(found, numerics)


@dataclass
class Lab:
    """An engine without its thread and server."""

    slots: int = 8
    prefill_tokens: int = 64
    numerics: Numerics = "fp32"
    cache_bytes: int = 0
    results: list = field(default_factory=list)

    def __post_init__(self) -> None:
        it = model(self.numerics)
        pool = StatePool.allocate(it.dims, self.slots)
        self.scheduler = Scheduler(Limits(self.slots, self.prefill_tokens, self.cache_bytes), pool, lambda: 0.0)
        self.runner = Runner(it, pool)
        self.engine = Engine(self.scheduler, self.runner, 1000, Liveness(None))

    def add(self, items: Sequence[GenerateItem | ScoreItem]) -> None:
        for item in items:
            make: Callable = COMPILER.generate if isinstance(item, GenerateItem) else COMPILER.score
            self.scheduler.submit(make(item, self.results.append))

    def run(self, *items: GenerateItem | ScoreItem) -> list:
        self.results.clear()
        self.add(items)
        while not self.scheduler.idle:
            self.engine.step()
        return sorted(self.results, key=lambda r: (r.id, getattr(r, "index", 0)))


def sampled(i: int, n: int = 1, **more: object) -> GenerateItem:
    settings = Sampling(max_tokens=5 + i % 4, temperature=1.0, top_p=0.95, presence=0.3, frequency=0.1, decay=0.9)
    stops = Stops(end_of_text=False)
    return GenerateItem(
        id=f"{i:03}",
        text=f"{i}+{i * 7}=" * (1 + i % 5),
        n=n,
        keys=tuple(range(i, i + n)),
        sampling=settings,
        stops=stops,
        **more,
    )


def essence(results: list) -> list:
    return [(r.id, r.index, r.ids, r.text, r.stop) if isinstance(r, Generated) else (r.id, r.scores) for r in results]


SCORED = ScoreItem(id="s", context="12+34=", continuations=("46", "47", "4", "466", "", "5"))


@cache
def each_alone() -> list:
    """Return the answer of each item when it runs alone."""
    return [r for i in range(4) for r in essence(Lab().run(sampled(i, n=1 + i % 3)))] + essence(Lab().run(SCORED))


@pytest.mark.parametrize(
    ("slots", "budget", "cache_bytes"), [(1, 1, 0), (2, 7, 1 << 20), (3, 1000, 0), (33, 50, 1 << 24)]
)
def test_fp32_answers_do_not_depend_on_batch_slot_chunking_or_cache(slots: int, budget: int, cache_bytes: int) -> None:
    lab = Lab(slots, budget, cache_bytes=cache_bytes)
    for _ in range(2):
        together = essence(lab.run(*(sampled(i, n=1 + i % 3) for i in reversed(range(4))), SCORED))
        assert together == each_alone()


def test_n_samples_are_those_of_n_items() -> None:
    forked = Lab().run(sampled(3, n=4))
    single = [Lab().run(GenerateItem(**{**fields(sampled(3)), "keys": (3 + i,)}))[0] for i in range(4)]
    assert [r.ids for r in forked] == [r.ids for r in single]
    assert len({r.ids for r in forked}) > 1


def fields(item: GenerateItem) -> dict:
    return {name: getattr(item, name) for name in item.__struct_fields__}


@pytest.mark.parametrize("count", [1, 2, 3, 17])
@pytest.mark.parametrize("n", [1, 3])
def test_max_tokens_is_exact(count: int, n: int) -> None:
    item = GenerateItem(id="a", text="ab", n=n, sampling=Sampling(max_tokens=count), stops=Stops(end_of_text=False))
    assert [(len(r.ids), r.stop, r.usage.generated) for r in Lab().run(item)] == [(count, "length", count)] * n


def test_fast_gives_the_same_greedy_answers() -> None:
    items = [GenerateItem(id=str(i), text=f"{10 + i}+{20 + i}=", sampling=Sampling(max_tokens=6)) for i in range(20)]
    assert essence(Lab().run(*items)) == essence(Lab(numerics="fast").run(*items))


def brute_force(full: Sequence[int], start: int) -> tuple[float, bool]:
    """Compute the log-softmax of the whole sequence, one position after the other, in float64."""
    lab = Lab(1)
    total, greedy = 0.0, True
    from rwkv_engine.cpu.layout import lay_out

    with torch.inference_mode():
        x = lab.runner.model.step(lab.runner.pool, lay_out([list(full)], [0], lab.runner.model.do.row_multiple))
        logits = lab.runner.model.logits(x[: len(full)]).double()
    logp = torch.log_softmax(logits, -1)
    for j in range(start, len(full)):
        total += float(logp[j - 1, full[j]])
        greedy &= int(logits[j - 1].argmax()) == full[j]
    return total, greedy


def test_scores_are_those_of_the_whole_sequence() -> None:
    (scored,) = Lab().run(SCORED)
    context = (0, *TOKENIZER.encode(SCORED.context or ""))
    for text, score in zip(SCORED.continuations, scored.scores, strict=True):
        total, greedy = brute_force((*context, *TOKENIZER.encode(text)), len(context))
        assert score.logprob == pytest.approx(total, abs=1e-4)
        assert score.greedy == greedy
        assert score.tokens == len(text)
    assert scored.usage.prompt == len(context)


@pytest.mark.parametrize("numerics", ["fp32", "fast"])
def test_scores_do_not_depend_on_how_the_context_is_given(numerics: Numerics) -> None:
    lab = Lab(numerics=numerics)
    ids = tuple(TOKENIZER.encode("12+34="))
    by_ids = ScoreItem(id="i", context_ids=ids, continuations=SCORED.continuations)
    lab.run(GenerateItem(id="k", ids=ids, keep=True, sampling=Sampling(max_tokens=1), stops=Stops(tokens=("4",))))
    kept = ScoreItem(id="k", continue_from=Continue(id="k"), continuations=SCORED.continuations)
    results: list[Scored] = lab.run(SCORED, by_ids, kept)
    for other in results[1:]:
        assert [s.logprob for s in other.scores] == pytest.approx([s.logprob for s in results[0].scores], abs=1e-5)


def parts(item: ScoreItem) -> list[tuple[bytes, bytes]]:
    """Return (context, scored part) of each continuation as bytes, in World tokens."""
    task = Compiler(WORLD).score(item, lambda _: None)
    return [(WORLD.decode_bytes(f.ids[: f.start]), WORLD.decode_bytes(f.ids[f.start :])) for f in task.continuations]


def test_the_common_prefix_rule_scores_from_the_first_token_that_differs() -> None:
    # "Answer:" + " A": World joins "\n" with what follows, so context and whole part before the context's end.
    assert parts(ScoreItem(id="a", context="Answer:", continuations=(" A", " B"))) == [
        (b"Answer:", b" A"),
        (b"Answer:", b" B"),
    ]
    context, scored = parts(ScoreItem(id="a", context="x\n", continuations=("\ny",)))[0]
    assert (context, scored) == (b"x", b"\n\ny")


def test_the_lm_eval_rule_moves_trailing_blanks_to_the_continuation() -> None:
    assert parts(ScoreItem(id="a", context="Answer: ", continuations=("A",), split="lm-eval")) == [(b"Answer:", b" A")]


@given(
    st.text("ab \n:é", max_size=10),
    st.text("ab \n:é", max_size=6),
    st.sampled_from(["longest-common-prefix", "lm-eval"]),
)
def test_context_and_continuation_are_encoded_as_one_text(context: str, text: str, split: str) -> None:
    task = Compiler(WORLD).score(ScoreItem(id="a", context=context, continuations=(text,), split=split), lambda _: None)
    (full,) = task.continuations
    assert full.ids == (0, *WORLD.encode(context + text))
    assert 1 <= full.start <= len(full.ids)


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        ({"text": "a", "ids": (1,)}, "exactly one"),
        ({}, "exactly one"),
        ({"ids": (300,)}, "300"),
        ({"text": "a", "n": 0}, "n is 0"),
        ({"text": "a", "keys": (1, 2)}, "2 keys"),
        ({"text": "a", "keys": (-1,)}, "64-bit"),
        ({"text": "a", "sampling": Sampling(max_tokens=0)}, "max_tokens"),
        ({"text": "a", "sampling": Sampling(temperature=-1.0)}, "temperature"),
        ({"text": "a", "sampling": Sampling(top_p=1.5)}, "top_p"),
        ({"text": "a", "sampling": Sampling(top_k=-1)}, "top_k"),
        ({"text": "a", "sampling": Sampling(banned=("",))}, "banned"),
        ({"text": "a", "stops": Stops(tokens=("",))}, "empty"),
    ],
)
def test_a_bad_item_is_refused_by_name(item: dict, sentence: str) -> None:
    with pytest.raises(ItemError, match=sentence):
        COMPILER.generate(GenerateItem(id="x", **item), lambda _: None)


def test_world_refuses_to_ban_what_is_no_token_and_bytes_pass_over_it() -> None:
    item = GenerateItem(id="x", text="a", sampling=Sampling(banned=(" <", "zqzqzq")))
    with pytest.raises(ItemError, match="zqzqzq"):
        Compiler(WORLD).generate(item, lambda _: None)
    assert COMPILER.generate(item, lambda _: None).rule.banned is None


def test_banned_and_unpenalised_bytes() -> None:
    free = Lab().run(GenerateItem(id="a", text="12+34=", sampling=Sampling(max_tokens=3)))[0]
    first = free.text[0]
    barred = Lab().run(GenerateItem(id="a", text="12+34=", sampling=Sampling(max_tokens=3, banned=(first,))))[0]
    assert first not in barred.text


def test_token_0_comes_first_once() -> None:
    results = Lab().run(
        GenerateItem(id="a", text="hi", sampling=Sampling(max_tokens=1)),
        GenerateItem(id="b", ids=(0, 105, 106), sampling=Sampling(max_tokens=1)),
        GenerateItem(id="c", ids=(105, 106), sampling=Sampling(max_tokens=1)),
        GenerateItem(id="d", text="", sampling=Sampling(max_tokens=1)),
    )
    assert [r.prompt_ids for r in results] == [(0, 105, 106)] * 3 + [(0,)]


@pytest.mark.parametrize("numerics", ["fp32", "fast"])
def test_a_tail_after_ids_is_a_tail_after_the_kept_sample(numerics: Numerics) -> None:
    """A runner sends this when the engine that kept the first stage is gone."""
    lab = Lab(numerics=numerics)
    (first,) = lab.run(GenerateItem(id="a", text="12+34=", sampling=Sampling(max_tokens=4), keep=True))
    (going_on,) = lab.run(
        GenerateItem(id="b", continue_from=Continue(id="a", tail="56+7="), sampling=Sampling(max_tokens=4))
    )
    ids = first.prompt_ids + first.ids
    (again,) = lab.run(GenerateItem(id="c", ids=ids, tail="56+7=", sampling=Sampling(max_tokens=4)))
    assert (again.ids, again.prompt_ids) == (going_on.ids, going_on.prompt_ids)
    (kept,) = lab.run(ScoreItem(id="d", continue_from=Continue(id="a", tail="x="), continuations=("A", "B")))
    (sent,) = lab.run(ScoreItem(id="e", context_ids=ids, tail="x=", continuations=("A", "B")))
    assert [s.logprob for s in sent.scores] == pytest.approx([s.logprob for s in kept.scores], rel=1e-5)


def test_a_tail_without_ids_is_refused() -> None:
    with pytest.raises(ItemError, match="tail goes with ids"):
        COMPILER.generate(GenerateItem(id="a", text="1+1=", tail="2"), lambda _: None)


HANZI = tuple(text for text in map(chr, range(0x4E00, 0x5000)) if WORLD.single(text) is not None)


@pytest.mark.parametrize(
    ("sampling", "stops", "sentence"),
    [
        (
            Sampling(logit_bias=tuple((i, 1.0) for i in range(2000))),
            Stops(),
            "2000 tokens are given; the engine takes 1024 at most",
        ),
        (Sampling(unpenalised=HANZI), Stops(), "unpenalised: .* takes 256 at most"),
        (
            Sampling(),
            Stops(tokens=tuple(map(chr, range(32, 110)))),
            "stop: 79 tokens are given; the engine takes 64 at most",
        ),
    ],
)
def test_more_named_tokens_than_a_gpu_has_room_for_are_refused(sampling: Sampling, stops: Stops, sentence: str) -> None:
    with pytest.raises(ItemError, match=sentence):
        Compiler(WORLD).generate(GenerateItem(id="a", text="x", sampling=sampling, stops=stops), lambda _: None)
