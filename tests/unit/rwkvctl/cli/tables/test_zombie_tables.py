"""Processes on GPUs as tables: everything the messages have can be drawn, and only what they have is read."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkvctl.cli.render import Table, aligned, separated
from rwkvctl.cli.tables import zombie_tables
from rwkvctl.protocol.zombies import ReapedView, ReapReply, RuleView, ZombiesReply, ZombieView

RULE = RuleView(part="class", name="orphan", holds=True, value="e3, which ended 60 s ago")
ORPHAN = ZombieView(
    gpu="GPU-6", index="6", pid=31877, cls="orphan", start_ticks=993311, user="rwkv", uid=1001, age_s=3139.0,
    memory_bytes=40 * 2**30, state="S", parent=1, command="python -m rwkv_engine", attempt="e3", still_s=200.0,
    verdict="pid 31877 was left behind by e3", command_line="rwkvctl reap 31877 --start 993311 --yes",
    rules=(RULE, RuleView(part="evidence", name="idle", holds=False, value="highest utilisation 3 %"),
           RuleView(part="node", name="mode", holds=True, value="reap = auto")),
)  # fmt: skip
GHOST = ZombieView(gpu="GPU-7", index="7:1", pid=99, cls="ghost", verdict="NVML lists pid 99")
OURS = ZombieView(gpu="GPU-0", index="0", pid=5, cls="ours", verdict="pid 5 belongs to e1")
REAPED = ReapedView(at="2026-01-02T03:04:05.678Z", pid=4, outcome="freed", text="it ended", by="the daemon")


def plain(item: msgspec.Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(item))


ITEMS = [plain(item) for item in (ORPHAN, GHOST, OURS)]


@pytest.mark.parametrize(
    "table",
    [
        zombie_tables.zombies(ITEMS, verdicts=True),
        zombie_tables.zombies(ITEMS, verdicts=False),
        zombie_tables.rules(ITEMS[0]["rules"]),
        zombie_tables.reaped([plain(REAPED)]),
        zombie_tables.plan(["one", "two"]),
    ],
)
def test_every_row_has_every_column(table: Table) -> None:
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert len(aligned(table, 80, colour=False)) == len(table.rows) + 1


def test_only_fields_that_exist_are_read() -> None:
    text = Path(zombie_tables.__file__).read_text(encoding="utf-8")
    read = set(re.findall(r"\b(?:item|rule|reply)(?:\.get\(|\[)[\"'](\w+)[\"']", text))
    structs = (ZombieView, RuleView, ReapedView, ZombiesReply, ReapReply)
    assert read
    assert read <= {field.name for struct in structs for field in msgspec.structs.fields(struct)}


def test_what_is_not_known_is_nothing_in_a_pipe() -> None:
    head, _, ghost, _ = [line.split("\t") for line in separated(zombie_tables.zombies(ITEMS, verdicts=True))]
    shown = dict(zip(head, ghost, strict=True))
    assert {shown[name] for name in ("start", "user", "age", "still", "memory", "command")} == {""}
    assert (shown["gpu"], shown["class"]) == ("7:1", "ghost")


def test_people_read_a_sentence_on_everything_that_is_not_ours() -> None:
    assert zombie_tables.sentences(ITEMS) == [
        "GPU 6: pid 31877 was left behind by e3.",
        "GPU 7:1: NVML lists pid 99.",
    ]


def test_a_pipe_reads_words_for_marks() -> None:
    lines = [line.split("\t") for line in separated(zombie_tables.rules(ITEMS[0]["rules"]))]
    assert [line[2] for line in lines[1:]] == ["true", "false", "true"]


@pytest.mark.parametrize(
    ("policy", "words"), [("auto", "automatically"), ("ask", "when you confirm"), ("off", "no process")]
)
def test_the_headline_says_the_policy_and_what_is_in_its_way(policy: str, words: str) -> None:
    reply = plain(ZombiesReply(items=(), policy=policy, observing="no look yet"))
    text = "\n".join(zombie_tables.headline(reply))
    assert words in text
    assert "no process is ended now: no look yet" in text
