"""The tables of GPUs: every column stands for a field that the messages have, and nothing is lost in 80 cells."""

import re
from pathlib import Path
from typing import Any

import msgspec

from rwkvctl.cli.render import Table, aligned, separated
from rwkvctl.cli.tables import gpu_tables
from rwkvctl.protocol.gpus import ChangedGpu, GpuHistoryReply, GpuHolderView, GpuTrack, GpuView

BUSY = GpuView(
    id="GPU-a", index="3", name="NVIDIA H200", use="waiting", condition="reserved", reason="for training",
    why="python train.py (alice, pid 7) has computed nothing for 12 min; its probe says: step 1200",
    since="2026-11-22T02:11:09.000Z", holders=(GpuHolderView(pid=7, start=9, cls="other-user", user="alice"),),
    memory_used_bytes=60 * 2**30, memory_total_bytes=80 * 2**30, utilisation=0.0, power_w=70.4, temperature_c=35.0,
    throttle=("hw-thermal",), idle_s=720.0,
)  # fmt: skip
UNKNOWN = GpuView(id="GPU-b", index="4:1", use="unknown", condition="quarantined", reason="XID 79", why="it is lost")


def plain(item: msgspec.Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(item))


def rows(table: Table) -> list[dict[str, str]]:
    first, *rest = (line.split("\t") for line in separated(table))
    return [dict(zip(first, line, strict=True)) for line in rest]


def test_only_fields_that_exist_are_read() -> None:
    structs = (GpuView, GpuHolderView, ChangedGpu, GpuTrack, GpuHistoryReply)
    known = {name for struct in structs for name in struct.__struct_fields__} | {"items"}
    text = Path(gpu_tables.__file__).read_text(encoding="utf-8")
    read = set(re.findall(r"\b(?:item|reply|holder)(?:\.get\(|\[)[\"'](\w+)[\"']", text))
    assert len(read) > 20
    assert read <= known


def test_a_gpu_says_whose_it_is_and_why() -> None:
    busy, unknown = rows(gpu_tables.gpus([plain(BUSY), plain(UNKNOWN)]))
    assert (busy["gpu"], busy["use"], busy["condition"], busy["whose"]) == ("3", "waiting", "reserved", "alice")
    assert busy["why"].startswith("for training, python train.py")
    assert (busy["memory used"], busy["memory total"]) == (str(60 * 2**30), str(80 * 2**30))
    assert (busy["util"], busy["watts"], busy["idle"]) == ("0", "70", "720")
    assert (busy["since"][11:19], busy["throttle"], busy["uuid"]) == ("02:11:09", "hw-thermal", "GPU-a")
    shown = [unknown[name] for name in ("gpu", "memory used", "util", "why")]
    assert shown == ["4:1", "", "", "XID 79, it is lost"]
    assert "60.0/80.0 GiB" in aligned(gpu_tables.gpus([plain(BUSY)]), 0, colour=False)[1]


def test_eight_gpus_fit_a_small_terminal_and_keep_what_matters() -> None:
    lines = aligned(gpu_tables.gpus([plain(BUSY)] * 8), 80, colour=False)
    assert all(len(line) <= 80 for line in lines)
    assert all(word in lines[1] for word in ("3", "waiting", "reserved", "60.0/80.0 GiB", "alice"))


def test_the_last_minutes_are_drawn_for_eyes_only() -> None:
    table = gpu_tables.gpus([plain(BUSY)], {"items": [{"id": "GPU-a", "utilisation": [None, 0.0, 0.5, 1.0]}]})
    assert "⠀⣼" in aligned(table, 0, colour=False)[1]
    assert "⣼" not in "".join(separated(table))


def test_a_change_says_what_it_did_and_why_not() -> None:
    items = [
        plain(ChangedGpu(gpu="3", condition="draining", reason="fan", changed=True)),
        plain(ChangedGpu(gpu="4", changed=False, error="it is here and answers")),
    ]
    assert [(row["gpu"], row["changed"], row["why not"]) for row in rows(gpu_tables.changed(items))] == [
        ("3", "yes", ""),
        ("4", "no", "it is here and answers"),
    ]


def test_history_leaves_out_what_was_not_recorded() -> None:
    track = GpuTrack(
        id="GPU-a", index="3", use=("", "busy", "free"), condition=("", "ok", "ok"), utilisation=(None, 0.5, 0.0),
        memory_used_bytes=(None, 2**30, 0), power_w=(None, 300.0, None), temperature_c=(None, 60.0, 35.0),
    )  # fmt: skip
    reply = plain(GpuHistoryReply(since=1_790_000_000, until=1_790_000_025, step_s=10, items=(track,)))
    found = rows(gpu_tables.history(reply))
    assert [(row["time"], row["use"], row["util"], row["watts"]) for row in found] == [
        ("2026-09-21T14:13:30Z", "busy", "0.5", "300"),
        ("2026-09-21T14:13:40Z", "free", "0", ""),
    ]
