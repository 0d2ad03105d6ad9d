"""Keys: stable for ever, and different as soon as anything they cover is."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.rules.work_keys import WorkIdentity, digest, generation_key, grade_key, random_key

WORK = WorkIdentity(
    weights_sha256="a" * 64,
    rows_sha256="b" * 64,
    benchmark="gsm8k",
    benchmark_version=1,
    kind="cot",
    configuration={"stages": [{"name": "cot", "sampling": {"temperature": 0.3}}], "seed": 42},
    seed=42,
    limit=None,
    numerics="fp32",
)
OTHER = {
    "weights_sha256": "c" * 64,
    "rows_sha256": "c" * 64,
    "benchmark": "gsm8",
    "benchmark_version": 2,
    "kind": "plain",
    "configuration": {"stages": [{"name": "cot", "sampling": {"temperature": 0.4}}], "seed": 42},
    "seed": 43,
    "limit": 100,
    "numerics": "fast",
}


def test_the_golden_key() -> None:
    """A change here makes every stored score look like other work: never let it happen by accident."""
    assert generation_key(WORK) == "d5177ffee258fb6e42ffc2079ab3f225"
    assert grade_key(generation_key(WORK), "number", "1") == "edd9121d483f0e43d6343533d4704c3c"
    assert random_key(42, 7, 3, 1) == 17881485648608843447


def test_every_field_of_the_work_is_in_the_key() -> None:
    assert set(OTHER) == {field.name for field in fields(WorkIdentity)}
    keys = {generation_key(WORK)} | {generation_key(replace(WORK, **{name: other})) for name, other in OTHER.items()}
    assert len(keys) == len(OTHER) + 1


def test_the_order_in_which_a_configuration_was_written_does_not_matter() -> None:
    assert generation_key(replace(WORK, configuration=dict(reversed(WORK.configuration.items())))) == generation_key(
        WORK
    )


@pytest.mark.parametrize("missing", ["weights_sha256", "rows_sha256"])
def test_there_is_no_key_before_the_hashes_are_known(missing: str) -> None:
    assert generation_key(replace(WORK, **{missing: ""})) == ""
    assert grade_key("", "number", "1") == ""


def test_a_grade_key_depends_on_work_grader_and_version() -> None:
    keys = {grade_key("g", "a", "1"), grade_key("h", "a", "1"), grade_key("g", "b", "1"), grade_key("g", "a", "2")}
    assert len(keys) == 4


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_parts_of_a_digest_do_not_run_into_each_other(parts: list[str]) -> None:
    assert digest(*parts) != digest("".join(parts), *parts)
    assert digest(*parts) != digest(parts)
    assert len(digest(*parts)) == 32


def test_random_keys_are_distinct_and_use_all_64_bits() -> None:
    keys = [random_key(s, r, k, t) for s in range(3) for r in range(40) for k in range(12) for t in range(2)]
    assert len(set(keys)) == len(keys)
    assert all(0 <= key < 2**64 for key in keys)
    assert all(any(key >> bit & 1 for key in keys) and not all(key >> bit & 1 for key in keys) for bit in range(64))


def test_digits_do_not_move_between_the_parts_of_a_random_key() -> None:
    assert (
        len({random_key(1, 11, 1, 1), random_key(11, 1, 1, 1), random_key(1, 1, 11, 1), random_key(1, 1, 1, 11)}) == 4
    )
