"""What a read-only console runs: verbs that only read, without the words that make them write."""

import pytest

from rwkvctl.tui.shell.command_parser import Run, understand

QUEUE = "queue --only-datasets gsm8k --set"


@pytest.mark.parametrize(
    "line",
    ["order j1 --by difficulty", f"{QUEUE} order=difficulty k=2", f"{QUEUE} order=row-order@1a2b3c4d",
     f"{QUEUE} 'order=\"v.1\"'", f"{QUEUE} where=a.b=3",
     "search order=a.b"],
)  # fmt: skip
def test_reading_is_run(line: str) -> None:
    assert isinstance(understand(line, set(), read_only=True), Run)


@pytest.mark.parametrize(
    "line",
    ["order j1 --to o.txt", "order j1 --to=o.txt", f"{QUEUE} k=2 order=o.txt", "queue --set=order=./o"],
)
def test_what_writes_a_file_or_gives_the_node_an_order_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="This console is read-only"):
        understand(line, set(), read_only=True)
    assert isinstance(understand(line, set()), Run)
