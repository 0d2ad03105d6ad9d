"""Which of several pinned baselines counts for a model."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.compare.pinned_baselines import Pin, baseline_of, pins_of


class StoreOf:
    """A store with these pins, in this order."""

    def __init__(self, pins: list[Pin]) -> None:
        self.pins = pins

    async def all(self, *_: object) -> list[dict[str, str]]:
        return [pin._asdict() for pin in self.pins]


async def baseline(model: str, *pins: tuple[str, str]) -> str:
    """The baseline of a model where these (pattern, baseline) were pinned one after another."""
    store = StoreOf([Pin(*pin, "someone", f"2026-01-01T00:00:{at:02}Z") for at, pin in enumerate(pins)])
    return baseline_of(await pins_of(store), model)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pins", "found"),
    [
        ([], ""),
        ([("*", "all")], "all"),
        ([("g1y-*", "x")], ""),
        ([("G1X-*", "x")], ""),
        ([("g1x-*", "x"), ("*", "all")], "x"),
        ([("g1x-rwkv-*", "y"), ("g1x-*", "x")], "y"),
        ([("g1x-rwkv-12", "own"), ("g1x-rwkv-1*", "y")], "own"),
        ([("g1x-rwkv-??", "marks"), ("g1x-*-12", "star")], "marks"),
        ([("*rwkv*", "old"), ("g1x-*", "new")], "new"),
        ([("g1x-*", "g1x-rwkv-12"), ("*", "all")], "all"),
        ([("g1x-rwkv-12", "g1x-rwkv-12")], ""),
        ([("*", "g1x-rwkv-12")], ""),
        ([("g[0-9]x*", "signs"), ("g1x-*", "x")], "x"),
    ],
)
async def test_the_most_particular_pattern_counts_and_no_model_is_its_own(
    pins: list[tuple[str, str]], found: str
) -> None:
    assert await baseline("g1x-rwkv-12", *pins) == found


async def test_a_whole_name_is_that_name_whatever_signs_it_has() -> None:
    assert await baseline("run[a]-12", ("run[a]-12", "own"), ("*", "all")) == "own"
    assert await baseline("runa-12", ("run[a]-12", "own"), ("*", "all")) == "own", "it is a pattern, too"
    assert await baseline("run[a]-13", ("run[a]-12", "own"), ("*", "all")) == "all"


async def test_a_pin_whose_model_has_no_scores_any_more_is_not_used() -> None:
    pins = [Pin("g1x-*", "gone", "me", "2026-01-02", scored=False), Pin("*", "all", "me", "2026-01-01")]
    assert baseline_of(await pins_of(StoreOf(pins)), "g1x-12") == "all"  # type: ignore[arg-type]


PATTERNS = st.text("ab*?-", min_size=1, max_size=5)


@given(st.dictionaries(PATTERNS, st.text("ab-", min_size=1, max_size=3), max_size=6), st.text("ab-", max_size=5),
       st.randoms(use_true_random=False))  # fmt: skip
async def test_the_order_in_which_pins_are_stored_does_not_matter(
    patterns: dict[str, str], model: str, source: object
) -> None:
    pins = [Pin(pattern, name, "me", f"2026-01-0{at}") for at, (pattern, name) in enumerate(patterns.items(), 1)]
    first = baseline_of(await pins_of(StoreOf(pins)), model)  # type: ignore[arg-type]
    source.shuffle(pins)  # type: ignore[attr-defined]
    assert baseline_of(await pins_of(StoreOf(pins)), model) == first  # type: ignore[arg-type]
    fitting = {pin.model for pin in pins if fnmatchcase(model, pin.pattern)} - {model}
    assert (first in fitting) if fitting else first == ""
