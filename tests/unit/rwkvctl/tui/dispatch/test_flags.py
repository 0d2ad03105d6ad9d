"""The dispatch form's fields are the flags of the command line, both ways."""

import pytest

from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.selection import SelectionError
from rwkvctl.protocol.requests import Selection
from rwkvctl.tui.dispatch import flags

FILLED = {
    "models": "rwkv7-g1* builtin", "only_datasets": "gsm8k, mmlu", "limit": "20", "set": "temperature=0 k=4",
    "overwrite": "yes", "seed": "7", "priority": "5", "model_select": "latest-data",
}  # fmt: skip


def test_fields_become_the_words_of_flags_and_what_the_planner_is_asked() -> None:
    words = flags.words_of(FILLED)
    assert flags.line("queue", words) == (
        "rwkvctl queue --models 'rwkv7-g1*' builtin --only-datasets gsm8k mmlu --model-select latest-data --limit 20 "
        "--seed 7 --set temperature=0 k=4 --priority 5 --overwrite"
    )
    assert flags.selected(words) == Selection(
        models=("rwkv7-g1*", "builtin"), only_datasets=("gsm8k", "mmlu"), model_select="latest-data", limit=20, seed=7,
        settings={"temperature": "0", "k": "4"}, priority=5, overwrite=True,
    )  # fmt: skip


def test_words_become_the_fields_again() -> None:
    words = flags.words_of(FILLED)
    assert flags.words_of(flags.values_of(words)) == words
    assert flags.words_of(flags.values_of(())) == ()
    assert set(flags.values_of(()).values()) == {""}


def test_a_name_with_blanks_is_quoted_and_quotes_left_open_are_said() -> None:
    assert flags.words_of({"models": "'two words'"}) == ("--models", "two words")
    with pytest.raises(ValueError, match="quotation"):
        flags.words_of({"models": "'open"})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--limit", "x"), "invalid int value"),
        (("--numerics", "wild"), "invalid choice"),
        (("--rows", "mine.jsonl"), ":dispatch --rows"),
        (("--set", "k=2", "order=o.txt"), "type :dispatch --only-datasets … --set order="),
        (("--nonsense",), "unknown flag"),
    ],
)
def test_what_the_command_line_would_refuse_is_refused_in_its_words(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        flags.selected(words)


def test_what_the_flags_exclude_is_refused() -> None:
    with pytest.raises(SelectionError, match="at least 1"):
        flags.selected(("--limit", "0"))
