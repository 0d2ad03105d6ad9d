"""Hashes of runs of words."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.recipes.cleaning import hash_table
from rwkv_data.recipes.cleaning.hash_filter import HashFilter
from rwkv_data.recipes.cleaning.hash_table import HashTable, HashTableWriter
from rwkv_data.recipes.cleaning.hashed_texts import HashedTexts

TEXTS = st.lists(st.lists(st.sampled_from(["a", "bb", "中", "a1", "é"]), max_size=9).map(" ".join), max_size=6)


@given(TEXTS, st.integers(1, 4))
def test_runs_are_all_there_and_equal_where_their_words_are(texts: list[str], size: int) -> None:
    runs = HashedTexts(texts).runs(size)
    expected = [
        (number, at)
        for number, text in enumerate(texts)
        for at in range(len(text.split()) - size + 1)
    ]  # fmt: skip
    found = list(zip(runs.texts.tolist(), runs.starts.tolist(), strict=True))
    assert [pair for pair in found if texts[pair[0]]] == expected
    by_hash = defaultdict(set)
    for hashed, (number, at) in zip(runs.hashes.tolist(), found, strict=True):
        by_hash[hashed].add(" ".join(texts[number].split()[at : at + size]))
    assert all(len(words) == 1 for words in by_hash.values())
    assert len(by_hash) == len(set().union(*by_hash.values()))


@given(TEXTS)
def test_different_runs_are_each_there_once(texts: list[str]) -> None:
    runs = HashedTexts(texts).runs(2)
    once = runs.different()
    assert len(set(zip(once.texts.tolist(), once.hashes.tolist(), strict=True))) == len(once.hashes)
    assert set(once.hashes.tolist()) == set(runs.hashes.tolist())
    assert once.texts.tolist() == sorted(once.texts.tolist())


@given(TEXTS, st.randoms())
def test_bags_do_not_depend_on_the_order_of_words(texts: list[str], random) -> None:
    other = [" ".join(random.sample(text.split(), len(text.split()))) for text in texts]
    one, two = HashedTexts(texts).bags(3), HashedTexts(other).bags(3)
    assert one.hashes.tolist() == two.hashes.tolist()
    assert one.texts.tolist() == [number for number, text in enumerate(texts) if len(text.split()) >= 3]


def test_hashes_are_the_same_in_every_process() -> None:
    """An index is kept: a hash that changed would find nothing any more."""
    runs = HashedTexts(["what is two and two", "中 文"])
    assert [f"{hashed:016x}" for hashed in runs.whole().hashes.tolist()] == HASHES
    assert runs.runs(5).hashes.tolist() == runs.whole().hashes.tolist()[:1]


HASHES = ["f18e46f64808585c", "0ed9684285aba71b"]


@pytest.mark.parametrize("at_once", [1, 3, 1 << 22])
def test_a_table_is_sorted_whole_or_in_parts(tmp_path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(hash_table, "AT_ONCE", at_once)
    hashes = np.random.default_rng(7).integers(0, 1 << 64, 20, np.uint64)
    hashes = np.concatenate([hashes, hashes[:10]])
    with HashTableWriter(tmp_path, "t") as writer:
        writer.add(hashes[:13], np.arange(13))
        writer.add(hashes[13:], np.arange(13, 30))
    table = HashTable(tmp_path, "t")
    assert table.hashes.tolist() == sorted(hashes.tolist())
    for number in range(10):
        first, last = (place[0] for place in table.find(hashes[number : number + 1]))
        assert table.rows(first, last).tolist() == [number, number + 20]
    assert len({path.name for path in tmp_path.iterdir()}) == 2


def test_an_empty_table_finds_nothing(tmp_path) -> None:
    with HashTableWriter(tmp_path, "t"):
        pass
    first, last = HashTable(tmp_path, "t").find(np.array([1, 2], np.uint64))
    assert (first == last).all()
    (tmp_path / "t.rows").write_bytes(b"1234")
    with pytest.raises(ValueError, match="has 0 hashes and 1 rows"):
        HashTable(tmp_path, "t")


def test_a_filter_lets_all_hashes_that_were_added_pass_and_few_others() -> None:
    random = np.random.default_rng(7)
    hashes, others = (random.integers(0, 1 << 64, 20_000, np.uint64) for _ in range(2))
    found = HashFilter(len(hashes))
    assert not found.may_hold(others).any()
    found.add(hashes)
    assert found.may_hold(hashes).all()
    assert found.may_hold(others).mean() < 0.05
