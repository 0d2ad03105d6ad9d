"""Constrained samples of real models with a byte and a World vocabulary: each sample satisfies its constraint."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from vocabularies import vocabulary

from rwkv_engine.constraints import compiled
from rwkv_engine.cpu.model import Model
from rwkv_engine.cpu.runner import Runner
from rwkv_engine.cpu.state_pool import StatePool
from rwkv_engine.errors import ItemError
from rwkv_engine.scheduling.engine_loop import Engine
from rwkv_engine.scheduling.scheduler import Limits, Scheduler
from rwkv_engine.scheduling.tasks import NOT_FINITE
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.serving.gauges import Liveness
from rwkv_weights.formats import load, synthetic
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.protocol.engine import Constraint, Continue, GenerateItem, Sampling, ScoreItem, Stops

HOT = Sampling(max_tokens=32, temperature=1.5)
BRIEF = Sampling(max_tokens=14, temperature=1.5)
ANSWERS = ("yes", "yes sir", "no", "Ärger", "日本語", "🦀🦀")
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 99},
                                           "é": {"enum": ["x", "日本", True]}},
          "required": ["a", "é"], "additionalProperties": False}  # fmt: skip


@dataclass
class Lab:
    """An engine without its thread and server."""

    model: Model
    compiler: Compiler
    slots: int = 8
    prefill_tokens: int = 64
    results: list = field(default_factory=list)

    def __post_init__(self) -> None:
        pool = StatePool.allocate(self.model.dims, self.slots)
        self.scheduler = Scheduler(Limits(self.slots, self.prefill_tokens, 0), pool, lambda: 0.0)
        self.engine = Engine(self.scheduler, Runner(self.model, pool), 1000, Liveness(None))

    def add(self, *items: GenerateItem | ScoreItem) -> None:
        for item in items:
            make: Callable = self.compiler.generate if isinstance(item, GenerateItem) else self.compiler.score
            self.scheduler.submit(make(item, self.results.append))

    def run(self, *items: GenerateItem | ScoreItem) -> list:
        self.results.clear()
        self.add(*items)
        return self.drained()

    def drained(self) -> list:
        while not self.scheduler.idle:
            self.engine.step()
        return sorted(self.results, key=lambda r: (r.id, getattr(r, "index", 0)))


@cache
def loaded(path: Path) -> tuple[Model, Compiler]:
    torch.set_num_threads(1)
    found = load.load(path)
    return Model.of(found, "fp32"), Compiler(vocabulary(found.dims.vocabulary))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("world") / "world.pth", synthetic.dims_of(2, 64))


@pytest.fixture(params=["bytes", "world"])
def path(request: pytest.FixtureRequest) -> Path:
    return builtin_checkpoint_path() if request.param == "bytes" else request.getfixturevalue("world")


@pytest.fixture
def make(path: Path) -> Callable[..., Lab]:
    return lambda *sizes: Lab(*loaded(path), *sizes)


@pytest.fixture
def bytewise() -> Lab:
    return Lab(*loaded(builtin_checkpoint_path()))


def asked(constraint: Constraint, id: str = "a", n: int = 1, sampling: Sampling = HOT, **more: Any) -> GenerateItem:  # noqa: A002
    return GenerateItem(id=id, text="12+34=", n=n, sampling=sampling, constraint=constraint, **more)


def is_asked(value: Any) -> bool:
    """Whether a value satisfies SCHEMA, checked without a schema library."""
    return set(value) == {"a", "é"} and type(value["a"]) is int and 3 <= value["a"] <= 99 and value["é"] in [
        "x", "日本", True]  # fmt: skip


def test_many_keys_give_only_what_was_asked_for(make: Callable[..., Lab]) -> None:
    """At a high temperature, and with characters of several bytes that are split into tokens."""
    results = make().run(
        asked(Constraint(choices=ANSWERS), "a", 12),
        asked(Constraint(json_schema=SCHEMA), "b", 8),
        asked(Constraint(regex="[ab]{2,5}(é|日本|🦀)+;"), "c", 6),
        asked(Constraint(choices=("4", "6"), lead=" ="), "d", 3),
    )
    assert {r.stop for r in results} <= {"stop_token", "length"}
    assert not [r for r in results if r.error]
    whole = [(r.id, r.text) for r in results if r.stop == "stop_token"]
    texts: dict[str, set[str]] = {name: {text for id_, text in whole if id_ == name} for name in "abcd"}
    assert texts["a"] <= set(ANSWERS)
    assert len(texts["a"]) > 2
    assert texts["b"]
    assert all(is_asked(json.loads(text)) for text in texts["b"])
    assert texts["c"]
    assert all(re.fullmatch("[ab]{2,5}(é|日本|🦀)+;", text) for text in texts["c"])
    assert texts["d"] <= {" =4", " =6"}
    assert [r.ids[-1:] != (0,) for r in results if r.ids] == [True] * len(results)


def test_the_same_tokens_in_any_batch_and_slot(make: Callable[..., Lab]) -> None:
    items = [
        asked(Constraint(choices=ANSWERS), "a", 2, BRIEF, keys=(5, 6)),
        asked(Constraint(json_schema=SCHEMA), "b", 1, BRIEF, keys=(8,)),
        GenerateItem(id="c", text="7*8=", n=2, keys=(1, 2), sampling=BRIEF, stops=Stops(end_of_text=False)),
        asked(Constraint(regex="[ab]{9}"), "d", 1, Sampling(max_tokens=14, presence=0.5, temperature=1.0, top_p=0.8)),
    ]
    alone = [(r.id, r.index, r.ids, r.stop) for item in items for r in make(1, 3).run(item)]
    for slots, budget in ((2, 5), (6, 64)):
        together = make(slots, budget).run(*reversed(items))
        assert [(r.id, r.index, r.ids, r.stop) for r in together] == alone


def test_a_sample_begun_anew_goes_on_in_its_grammar(make: Callable[..., Lab]) -> None:
    """A sample starts over like this after running out of memory."""
    items = (
        asked(Constraint(json_schema=SCHEMA), "a", 3, BRIEF),
        asked(Constraint(regex="[ab]{9}é{3}"), "b", 2, BRIEF),
    )
    wanted = [(r.id, r.index, r.ids) for r in make().run(*items)]
    lab = make()
    lab.add(*items)
    while not lab.scheduler.idle:
        lab.engine.step()
        lab.scheduler.set_back()
    assert [(r.id, r.index, r.ids) for r in lab.drained()] == wanted


@pytest.mark.parametrize("stops", [Stops(), Stops(end_of_text=False), Stops(end_of_text=False, suffixes=("zz",))])
def test_it_ends_with_token_0_whatever_its_stops_are(bytewise: Lab, stops: Stops) -> None:
    (found,) = bytewise.run(asked(Constraint(choices=("46",)), stops=stops))
    assert (found.text, found.ids, found.stop, found.usage.generated) == ("46", (53, 55), "stop_token", 3)


@pytest.mark.parametrize(
    ("stops", "text", "stop"),
    [
        (Stops(tokens=("b",)), "aa", "stop_token"),
        (Stops(suffixes=("bc",)), "aa", "stop_suffix"),
        (Stops(suffixes=("a",)), "", "stop_suffix"),
    ],
)
def test_a_stop_ends_it_before(bytewise: Lab, stops: Stops, text: str, stop: str) -> None:
    (found,) = bytewise.run(asked(Constraint(choices=("aabc",)), stops=stops))
    assert (found.text, found.stop) == (text, stop)


@pytest.mark.parametrize("most", [1, 3, 4, 5, 6])
def test_max_tokens_cuts_it(bytewise: Lab, most: int) -> None:
    (found,) = bytewise.run(asked(Constraint(choices=("日本",)), sampling=Sampling(max_tokens=most)))
    data = "日本".encode()[:most]
    assert (found.ids, found.stop) == (tuple(byte + 1 for byte in data), "length")
    assert found.text == data.decode(errors="replace")


def test_samples_of_one_item_are_those_of_several(make: Callable[..., Lab]) -> None:
    constraint = Constraint(json_schema=SCHEMA)
    together = make().run(asked(constraint, "a", 3, BRIEF, keys=(3, 4, 5)))
    alone = [make().run(asked(constraint, "a", 1, BRIEF, keys=(key,)))[0] for key in (3, 4, 5)]
    assert [r.ids for r in together] == [r.ids for r in alone]
    assert len({r.ids for r in together}) > 1


def test_costs_and_biases_choose_among_what_is_allowed(bytewise: Lab) -> None:
    digits = Constraint(regex="[0-9]{6}")
    (plain,) = bytewise.run(asked(digits, sampling=Sampling(max_tokens=9)))
    (costly,) = bytewise.run(asked(digits, sampling=Sampling(max_tokens=9, presence=50.0, frequency=50.0)))
    assert len(set(costly.text)) == 6 > len(set(plain.text))
    (led,) = bytewise.run(asked(digits, sampling=Sampling(max_tokens=9, logit_bias=((56, 100.0), (98, 100.0)))))
    assert led.text == "777777"
    (barred,) = bytewise.run(asked(digits, sampling=Sampling(max_tokens=9, temperature=1.5, banned=tuple("01234"))))
    assert set(barred.text) <= set("56789")


def test_bans_that_leave_nothing_are_said_and_others_go_on(bytewise: Lab) -> None:
    barred = Sampling(max_tokens=9, temperature=1.0, banned=("b",))
    results = bytewise.run(
        asked(Constraint(choices=("ab",)), "a", 2, barred),
        asked(Constraint(choices=("ab", "ac")), "b", 2, barred),
        GenerateItem(id="c", text="1+1=", sampling=Sampling(max_tokens=3)),
    )
    assert [r.error for r in results] == ["the constraint allows only tokens that are banned"] * 2 + [""] * 3
    assert [r.stop for r in results[:2]] == ["error"] * 2
    assert [r.text for r in results[2:4]] == ["ac", "ac"]


def test_logits_that_are_not_finite_are_still_said_to_be_so(bytewise: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "logits", lambda self, hidden: torch.full((len(hidden), 257), torch.nan))
    assert [r.error for r in bytewise.run(asked(Constraint(choices=("ab",))))] == [NOT_FINITE]


def test_a_grammar_that_grows_too_far_ends_its_sample_only(bytewise: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MOST_STATES", 300)
    wide = asked(Constraint(regex="(.{0,60}x){0,60}"), "a", sampling=Sampling(max_tokens=500, temperature=9.0))
    other = asked(Constraint(choices=("ok",)), "b")
    first, second = bytewise.run(wide, other)
    assert first.error.startswith("the constraint cannot be followed any further: ")
    assert "too many states" in first.error
    assert second.text == "ok"
    (again,) = bytewise.run(asked(Constraint(regex="(.{0,60}x){0,60}"), sampling=Sampling(max_tokens=2)))
    assert again.stop == "length"


def test_cancelling_frees_the_slot(bytewise: Lab) -> None:
    bytewise.add(asked(Constraint(regex="[ab]{50}"), "a", 6), asked(Constraint(regex="[ab]{20}"), "b", 6))
    for _ in range(6):
        bytewise.engine.step()
    bytewise.scheduler.cancel(lambda task: task.id == "a")
    assert [(r.id, len(r.text)) for r in bytewise.drained()] == [("b", 20)] * 6
    assert len(bytewise.scheduler._free) == 8


def test_a_kept_sample_goes_on_in_another_grammar(bytewise: Lab) -> None:
    bytewise.run(asked(Constraint(choices=("because",)), keep=True))
    (second,) = bytewise.run(
        GenerateItem(id="b", continue_from=Continue(id="a", tail=": "), constraint=Constraint(choices=("46", "47")))
    )
    prompt = (0, *bytewise.compiler.tokenizer.encode("12+34=because: "))
    (fresh,) = bytewise.run(GenerateItem(id="c", ids=prompt, constraint=Constraint(choices=("46", "47"))))
    assert (second.ids, second.prompt_ids) == (fresh.ids, prompt)
    assert second.usage.cached >= len(prompt) - len(": ")


def test_log_probabilities_are_those_of_the_model_unconstrained(make: Callable[..., Lab]) -> None:
    lab = make()
    (found,) = lab.run(asked(Constraint(choices=("日本 and so on",)), sampling=Sampling(max_tokens=40, logprobs=2)))
    ids = (*found.prompt_ids, *found.ids)
    (scored,) = lab.run(ScoreItem(id="s", context_ids=found.prompt_ids, continuations=("日本 and so on",)))
    assert lab.compiler.tokenizer.decode(ids[len(found.prompt_ids) :]) == "日本 and so on"
    assert sum(entry.logprob for entry in found.logprobs) == pytest.approx(scored.scores[0].logprob, rel=1e-4)
    assert all(entry.top[0][1] >= entry.logprob and len(entry.top) == 2 for entry in found.logprobs)


def test_a_guide_is_let_go_when_its_sample_ends(bytewise: Lab) -> None:
    task = bytewise.compiler.generate(asked(Constraint(choices=("ab",))), bytewise.results.append)
    bytewise.scheduler.submit(task)
    bytewise.engine.step()
    bytewise.engine.step()
    assert task.samples[0]._guide is not None
    bytewise.drained()
    assert task.samples[0]._guide is None


def test_a_bad_constraint_is_refused_by_name(bytewise: Lab) -> None:
    with pytest.raises(ItemError, match=r"constraint: .*unclosed"):
        bytewise.compiler.generate(asked(Constraint(regex="(a")), lambda _: None)
