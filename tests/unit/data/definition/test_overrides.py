"""benchmarks.toml: which setting wins, and that an error names its line."""

from pathlib import Path

import pytest

from rwkv_data.definition import overrides, registry
from rwkvctl.protocol.errors import ConfigError

BENCHMARKS = {name: registry.load(name) for name in ("gsm8k", "mmlu", "demo_arith")}
GSM8K = BENCHMARKS["gsm8k"].kinds["free_response"]


@pytest.fixture
def read(tmp_path: Path):
    def of(text: str) -> overrides.Overrides:
        (tmp_path / "benchmarks.toml").write_text(text, encoding="utf-8")
        return overrides.read(tmp_path / "benchmarks.toml", BENCHMARKS)

    return of


def test_no_file_sets_nothing(tmp_path: Path) -> None:
    assert overrides.read(tmp_path / "none.toml", BENCHMARKS).settings("gsm8k", GSM8K) == {}


def test_the_more_particular_one_wins(read) -> None:
    found = read(
        """
        [models."rwkv7-g1*".gsm8k]
        k = 8
        [gsm8k.free_response.cot]
        temperature = 0.5
        [gsm8k]
        k = 4
        cot.temperature = 0.1
        [defaults]
        k = 2
        seed = 7
        """
    )
    assert found.settings("gsm8k", GSM8K) == {"k": "4", "seed": "7", "cot.temperature": "0.5"}
    assert found.settings("gsm8k", GSM8K, "rwkv7-g1d-2.9b")["k"] == "8"
    assert found.settings("gsm8k", GSM8K, "other")["k"] == "4"
    assert found.reaches("rwkv7-g1d-2.9b", "gsm8k", "free_response")
    assert not found.reaches("rwkv7-g1d-2.9b", "mmlu", "multi_choice_plain")
    assert not found.reaches("other", "gsm8k", "free_response")


def test_a_default_reaches_only_kinds_that_have_it(read) -> None:
    found = read("[defaults]\nseed = 3\n")
    assert found.settings("mmlu", BENCHMARKS["mmlu"].kinds["multi_choice_plain"]) == {}
    assert found.settings("gsm8k", GSM8K) == {"seed": "3"}


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("\n[gsmk]\nk = 1\n", 2, "there is no benchmark 'gsmk'"),
        ("[gsm8k]\nk = 1\ntemprature = 0.5\n", 3, "there is no setting 'temprature'"),
        ("[gsm8k.free_response.cot]\n\ntop_p = 7\n", 3, "top_p=7 is not a number from 0 to 1"),
        ('[models."*".gsm8k]\nk = "four"\n', 2, "k='four' is not a whole number"),
        ("[mmlu]\nk = 4\n", 2, "each row is asked once"),
        ("gsm8k = 3\n", 1, "must be a table"),
    ],
)
def test_a_mistake_is_named_by_file_and_line(read, text: str, line: int, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert f"benchmarks.toml:{line}: " in str(caught.value)
    assert complaint in str(caught.value)


def test_what_is_no_toml_is_said(read) -> None:
    with pytest.raises(ConfigError, match=r"no readable TOML.*line 1"):
        read("[gsm8k\n")
