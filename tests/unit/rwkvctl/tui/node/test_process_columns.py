"""What the screen Procs shows of processes and GPUs, and when it lets somebody end or decide something."""

import pytest

from rwkvctl.protocol.gpus import GpuHolderView, GpuView
from rwkvctl.protocol.zombies import RuleView, ZombieView
from rwkvctl.tui.node import gpu_columns, process_columns
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import text_of

RULES = (
    RuleView(part="class", name="protected", holds=False, value="on no list"),
    RuleView(part="class", name="orphan", holds=True, value="marker of e3"),
    RuleView(part="evidence", name="idle", holds=True, value="highest utilisation 0 %"),
    RuleView(part="evidence", name="no log", holds=False, value="12 bytes of log"),
)


def holder(pid: int, cls: str = "orphan", gpu: str = "6", **more: object) -> ZombieView:
    given = {"memory_bytes": 2**30, "age_s": 60.0, "attempt": "e3", "start_ticks": 5} | more
    return ZombieView(gpu=f"GPU-{gpu}", index=gpu, pid=pid, cls=cls, **given)  # type: ignore[arg-type]


def text(lines: list[Pieces]) -> str:
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


def test_children_stand_under_their_parents_and_nobody_is_lost() -> None:
    items = [holder(10), holder(11, parent=10), holder(12, parent=11), holder(13, parent=1), holder(10, gpu="7")]
    rows = process_columns.tree(items)
    assert [(row.item.pid, row.depth) for row in rows] == [(10, 0), (11, 1), (12, 2), (13, 0), (10, 0)]
    assert process_columns.what(rows[2]).startswith("  └ e3")
    assert [row.depth for row in process_columns.flat(items)] == [0] * 5


def test_a_process_on_two_gpus_counts_once() -> None:
    assert process_columns.census([holder(10), holder(10, gpu="7"), holder(11, "ours")]) == [("ours", 1), ("orphan", 1)]


def test_evidence_says_every_rule_and_marks_what_is_missing() -> None:
    said = text(process_columns.evidence(holder(10, rules=RULES, verdict="pid 10 was left behind")))
    for words in ("pid 10 was left behind.", "· protected", "✓ orphan", "✓ idle", "✗ no log", "12 bytes", "plan"):
        assert words in said
    assert "plan" not in text(process_columns.evidence(holder(10, "ours", rules=RULES)))


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (holder(10), ""),
        (holder(10, "foreign", command_line="rwkvctl reap 10 --start 5 --yes"), "`rwkvctl reap 10 --start 5 --yes`"),
        (holder(10, "foreign"), "ask its owner."),
        (holder(10, "other-user", verdict="pid 10 belongs to bob"), "pid 10 belongs to bob"),
        (holder(10, "ours"), "at work or warm"),
    ],
)
def test_only_an_orphan_may_be_ended_and_the_others_say_why(item: ZombieView, why: str) -> None:
    assert why in process_columns.why_not(item)
    assert bool(process_columns.why_not(item)) == (item.cls != "orphan")


def test_the_question_names_what_is_freed_on_which_gpus_and_the_command() -> None:
    items = [holder(10), holder(10, gpu="7"), holder(11, attempt="e4")]
    said = text(process_columns.question(items, ("SIGTERM", "SIGKILL"), waiting=2))
    for words in ("Reap 2 processes?", "3.0 GiB on GPU 6 and GPU 7; 2 queued jobs wait", "left by e4",
                  "will     SIGTERM", "e3 and e4 ended before", "rwkvctl reap 10 --start 5 --yes"):  # fmt: skip
        assert words in said
    assert said.count("rwkvctl reap 10") == 1
    assert "Reap process 11?" in text(process_columns.question(items[2:], (), waiting=0))


def gpu(index: str = "3", **more: object) -> GpuView:
    return GpuView(id=f"GPU-{index}", index=index, **({"use": "free"} | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("item", "offered"),
    [
        (gpu(), ["reserve", "drain", "quarantine"]),
        (gpu(condition="reserved"), ["release", "quarantine"]),
        (gpu(condition="draining", reserved_for="training"), ["release", "undrain", "quarantine"]),
        (gpu(condition="quarantined"), ["quarantine", "unquarantine"]),
        (gpu(use="unknown"), ["reserve", "drain", "quarantine", "forget"]),
    ],
)
def test_only_decisions_that_mean_something_are_offered(item: GpuView, offered: list[str]) -> None:
    assert [decision.action for decision in gpu_columns.decisions([item])] == offered


def test_what_is_offered_for_several_gpus_holds_for_all_of_them() -> None:
    found = gpu_columns.decisions([gpu(), gpu("4", condition="quarantined")])
    assert [decision.action for decision in found] == ["quarantine"]
    by_name = {decision.action: decision for decision in gpu_columns.DECISIONS}
    assert gpu_columns.flags(by_name["reserve"], "run 12") == ["--for", "run 12"]
    assert gpu_columns.flags(by_name["drain"], "loud") == ["--reason", "loud"]
    assert gpu_columns.flags(by_name["release"], "") == []


def test_a_gpu_says_who_holds_it_and_what_is_wrong() -> None:
    held = GpuHolderView(pid=9, start=1, cls="orphan", user="bob", command="python x.py", memory_bytes=2**30, age_s=9)
    item = gpu(condition="quarantined", reason="two errors", holders=(held,), memory_used_bytes=2**30,
               memory_total_bytes=2**32, reserved_for="run 12", probe_says="step 4", throttle=("power",))  # fmt: skip
    cells = {column.title: text_of(column.cell(item)) for column in gpu_columns.GPUS}
    assert cells["CONDITION"] == "! quarantined"
    assert (cells["GiB"], cells["WHOSE"], cells["WHY"]) == ("1/4", "bob", "two errors")
    said = text(gpu_columns.about(item))
    for words in ("quarantined: two errors", "run 12, step 4", "slowed by", "pid 9", "python x.py"):
        assert words in said
