"""Stops: single tokens by id, everything else by bytes, across token and character borders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from vocabularies import vocabulary

from rwkv_engine.errors import ItemError
from rwkv_engine.scheduling.sample import Sample, SampleRule
from rwkv_engine.scheduling.stops import StopRule, SuffixMatcher, aligned, resolve
from rwkv_engine.tokenizer import Tokenizer
from rwkvctl.protocol.engine import Sampling, Stops

BYTES = vocabulary(257)
WORLD = vocabulary(65536)


def finish(tokenizer: Tokenizer, tokens: list[int], stops: Stops, max_tokens: int = 99) -> Sample:
    """Return a sample to which these tokens were added until it stopped."""
    sample = Sample(
        SampleRule(Sampling(max_tokens=max_tokens), resolve(stops, tokenizer), None, frozenset()), 0, tokenizer
    )
    for token in tokens:
        sample.add(token)
        if sample.stop is not None:
            break
    return sample


def test_a_stop_string_is_a_token_where_the_vocabulary_has_it() -> None:
    stops = Stops(tokens=("\n\n", "User"))
    assert resolve(stops, WORLD) == StopRule(frozenset({0, 261, 24281}), ())
    assert resolve(stops, BYTES) == StopRule(frozenset({0}), (b"\n\n", b"User"))
    assert resolve(Stops(end_of_text=False, tokens=("x",)), BYTES) == StopRule(frozenset({ord("x") + 1}), ())


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(ItemError, match="empty"):
        resolve(Stops(suffixes=("",)), WORLD)


def test_a_stop_token_is_no_part_of_the_answer() -> None:
    sample = finish(WORLD, [*WORLD.encode("so"), 261], Stops(tokens=("\n\n",)))
    assert (sample.stop, sample.text, sample.answer) == ("stop_token", "so", tuple(WORLD.encode("so")))
    sample = finish(BYTES, [98, 0, 99], Stops())
    assert (sample.stop, sample.text, len(sample.ids)) == ("stop_token", "a", 2)


def test_a_suffix_may_begin_in_one_token_and_end_in_another() -> None:
    sample = finish(BYTES, BYTES.encode("42\n\nUser"), Stops(tokens=("\n\n",)))
    assert (sample.stop, sample.text, sample.answer) == ("stop_suffix", "42", tuple(BYTES.encode("42")))
    assert len(sample.ids) == 4


def test_a_token_that_begins_before_the_suffix_stays_in_the_ids() -> None:
    tokens = [token for text in ("x", "。\n", "\n") if (token := WORLD.single(text)) is not None]
    assert len(tokens) == 3
    sample = finish(WORLD, tokens, Stops(suffixes=("\n\n",)))
    assert (sample.text, sample.answer) == ("x。", tuple(tokens[:2]))


def test_the_longest_of_the_suffixes_that_end_together_wins() -> None:
    sample = finish(BYTES, BYTES.encode("a\n\nUser"), Stops(suffixes=("User", "\n\nUser", "ser")))
    assert sample.text == "a"


def test_a_suffix_inside_a_token_stops_too() -> None:
    token = WORLD.single("\n\n\n")
    assert token is not None
    sample = finish(WORLD, [WORLD.single("x") or 0, token], Stops(suffixes=("\n\n",)))
    assert (sample.stop, sample.text) == ("stop_suffix", "x")


def test_a_suffix_may_cut_within_a_character() -> None:
    sample = finish(BYTES, BYTES.encode("né#"), Stops(suffixes=("é#",)))
    assert sample.text == "n"
    sample = finish(BYTES, [*BYTES.encode("né")[:-1], *BYTES.encode("##")], Stops(suffixes=("##",)))
    assert sample.text == "n\ufffd"


def test_max_tokens_is_exact_and_counts_the_stop() -> None:
    sample = finish(BYTES, BYTES.encode("abcdef"), Stops(), max_tokens=4)
    assert (sample.stop, sample.text, len(sample.ids)) == ("length", "abcd", 4)
    sample = finish(BYTES, [98, 0], Stops(), max_tokens=2)
    assert (sample.stop, sample.answer) == ("stop_token", (98,))


def test_logits_that_are_not_finite_end_the_sample_with_an_error() -> None:
    assert finish(BYTES, [98, -1], Stops()).stop == "error"


@given(
    st.text("ab\né", max_size=30), st.lists(st.text("ab\né", min_size=1, max_size=4), min_size=1, max_size=4), st.data()
)
def test_the_matcher_finds_the_first_end_in_any_cutting(text: str, suffixes: list[str], data: st.DataObject) -> None:
    whole, stops = text.encode(), [s.encode() for s in suffixes]
    ends = sorted((i + len(s), i) for s in stops for i in range(len(whole)) if whole.startswith(s, i))
    matcher, found, place = SuffixMatcher(stops), None, 0
    while place < len(whole) and found is None:
        size = data.draw(st.integers(1, 3))
        found = matcher.push(whole[place : place + size])
        place += size
    assert found == (ends[0][1] if ends else None)


@given(st.lists(st.integers(0, 5), max_size=10), st.integers(0, 30))
def test_aligned_keeps_tokens_that_begin_before_the_cut(lengths: list[int], cut: int) -> None:
    kept = aligned(lengths, cut)
    assert all(sum(lengths[:i]) < cut for i in range(kept))
    assert kept == len(lengths) or sum(lengths[:kept]) >= cut
