"""What `queue` and `status` say of when, where and how long; and the limits of groups in the configuration."""

from pathlib import Path
from typing import Any

import pytest

from rwkvctl.cli.tables import core_tables
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config

ROW: dict[str, Any] = {
    "model": "m",
    "benchmark": "b",
    "kind": "k",
    "action": "run",
    "reason": "run",
    "detail": "would run",
}


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, ["–", "–", "–"]),
        ({"est_s": 264.0, "starts_s": 0.0, "lease": "GPU 3"}, ["4m24s", "now", "GPU 3 (warm)"]),
        ({"est_s": 60.0, "starts_s": 754.0, "lease": "GPU 3", "loads": True}, ["1m00s", "in 12m34s", "GPU 3 (loads)"]),
    ],
)
def test_a_row_of_the_plan_says_what_to_expect_or_a_dash(known: dict[str, Any], expected: list[str]) -> None:
    table = core_tables.plan([ROW | known])
    [cells] = table.rows
    by_title = {column.title: cell for column, cell in zip(table.columns, cells, strict=True)}
    assert [by_title[title] for title in ("EST", "START", "WHERE")] == expected


def test_an_estimate_says_what_it_rests_on() -> None:
    [cells] = core_tables.plan([ROW | {"est_s": 1.0, "basis": "by a model of another size"}]).rows
    assert cells[-1] == "would run, estimated by a model of another size"


@pytest.mark.parametrize(
    ("reply", "clause"),
    [
        ({}, ""),
        ({"eta_s": 0.0}, ""),
        ({"eta_s": 9660.0}, "all done in 2h41m"),
        ({"eta_s": None, "not_estimated": 2}, "no ETA: 2 jobs have no history"),
        ({"eta_s": None, "not_estimated": 1}, "no ETA: 1 job has no history"),
    ],
)
def test_when_everything_is_done_is_said_or_why_it_cannot_be(reply: dict[str, Any], clause: str) -> None:
    assert core_tables.whole(reply) == clause


def configured(tmp_path: Path, text: str) -> dict[str, str]:
    folder = tmp_path / "rwkvctl"
    folder.mkdir()
    (folder / "config.toml").write_text(text)
    return {"XDG_CONFIG_HOME": str(tmp_path), "RWKVCTL_HOME": str(tmp_path)}


def test_limits_of_groups_are_read_from_the_table(tmp_path: Path) -> None:
    found = config.load(environ=configured(tmp_path, "[groups]\nnightly = 2\nurgent = 8\n"))
    assert found.groups == {"nightly": 2, "urgent": 8}
    assert (
        config.load(environ={"XDG_CONFIG_HOME": str(tmp_path / "nowhere"), "RWKVCTL_HOME": str(tmp_path)}).groups == {}
    )


@pytest.mark.parametrize(
    "text", ['[groups]\n\nnightly = "two"\n', "[groups]\n\nnightly = 0\n", "[groups]\n\nnightly = true\n"]
)
def test_a_limit_that_is_none_is_refused_with_file_and_line(tmp_path: Path, text: str) -> None:
    environ = configured(tmp_path, text)
    with pytest.raises(ConfigError, match=r"config\.toml:3: group nightly takes a whole number of jobs"):
        config.load(environ=environ)
