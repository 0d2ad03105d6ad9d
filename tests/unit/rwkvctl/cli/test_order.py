"""`rwkvctl order` and `--set order=FILE`: what is refused before the daemon is asked, and what is sent and written."""

import json
from pathlib import Path
from typing import Any

import pytest

from rwkvctl.cli import selection
from rwkvctl.cli.client import Answer
from rwkvctl.cli.commands import order
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.selection import SelectionError, with_order_kept
from rwkvctl.cli.tables import order_table
from rwkvctl.protocol.errors import RefusedError


class Client:
    """Answers with labels, and keeps what it was asked."""

    def __init__(self, refusal: RefusedError | None = None) -> None:
        self.refusal, self.asked = refusal, list[Any]()

    def post(self, route: str, body: Any, timeout: float) -> Answer:
        self.asked.append((route, body))
        if self.refusal is not None:
            raise self.refusal
        return Answer(b"", {"name": "row-order@1a2b3c4d"})


def wanted(value: object, *benchmarks: str) -> dict[str, Any]:
    return {"only_datasets": list(benchmarks or ["gsm8k"]), "settings": {"k": "2", "order": str(value)}}


def test_a_file_is_replaced_by_the_labels_that_the_daemon_makes_of_it(tmp_path: Path) -> None:
    file, client = tmp_path / "o.txt", Client()
    file.write_bytes("\ufeffq1\r\n\nq2\n\n\n".encode())
    kept: Any = with_order_kept(client, wanted(file, "gsm8k", "gsm8k"))  # type: ignore[arg-type]
    assert kept["settings"] == {"k": "2", "order": "row-order@1a2b3c4d"}
    assert client.asked == [("/v1/orders", {"benchmark": "gsm8k", "lines": ["q1\r", "", "q2"]})]


@pytest.mark.parametrize("value", ["difficulty", "difficulty@1a2b3c4d", '"v.1"', "'a/b'", ""])
def test_a_field_is_left_as_it_is(value: str) -> None:
    assert with_order_kept(None, wanted(value)) == wanted(value)  # type: ignore[arg-type]
    assert with_order_kept(None, {}) == {}  # type: ignore[arg-type]


def refused(value: object, *benchmarks: str, client: Any = None) -> str:
    with pytest.raises((SelectionError, RefusedError)) as caught:
        with_order_kept(client, wanted(value, *benchmarks))
    return str(caught.value)


def test_what_is_no_order_is_refused_before_it_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "o.txt"
    assert refused(file) == (
        f"--set order={file}: the file cannot be read (No such file or directory). For a field of that name write "
        f"order='\"{file}\"'; a name with a dot or a slash is a file."
    )
    assert "Is a directory" in refused(tmp_path)
    file.write_bytes(b"\xff\xfe")
    assert refused(file) == f"--set order={file}: the file is no UTF-8 text."
    file.write_text(json.dumps({"rows": ["x" * 1000]}))
    assert refused(file).endswith("line 1 is too long for the name of a row; the file with the rates is no order.")
    file.write_text("q1\n" + "x" * 1001)
    assert refused(file).endswith("line 2 is too long for the name of a row.")
    assert "name it with --only-datasets" in refused(file, "gsm8k", "math_500")
    monkeypatch.setattr(selection, "LARGEST_ORDER", 60)
    file.write_text("q1\n" * 30)
    assert "an order of over 0 MiB as JSON is not sent" in refused(file)
    file.write_text("线" * 30)
    assert "an order of over 0 MiB as JSON is not sent" in refused(file), "although byte 61 is within a character"
    file.write_text("线" * 12)
    assert "an order of over 0 MiB as JSON is not sent" in refused(file), "as JSON it has 72 characters and more"


def test_refusals_of_an_order_name_its_file(tmp_path: Path) -> None:
    file = tmp_path / "o.txt"
    file.write_text("q9")
    bad = RefusedError("bad-order", "line 1: gsm8k has no row 'q9'.", "", 2)
    assert refused(file, client=Client(bad)) == f"{file}: line 1: gsm8k has no row 'q9'."
    assert refused(file, client=Client(RefusedError("not-allowed", "Not for viewers."))) == "Not for viewers."


@pytest.mark.parametrize("band", [[0.1], [0.9, 0.1], [0.1, 0.2, 0.3], [0.0, float("nan")], [0.0, float("inf")]])
def test_a_band_is_two_numbers(band: list[float]) -> None:
    with pytest.raises(UsageError, match="--band takes two numbers, the lower one first"):
        order.bounds("pass-rate", band)


def test_a_band_of_pass_rates_is_no_percentage() -> None:
    assert order.bounds("pass-rate", []) == {}
    assert order.bounds("pass-rate", [0.1, 1]) == {"low": 0.1, "high": 1}
    assert order.bounds("difficulty", [4, 8]) == {"low": 4, "high": 8}
    with pytest.raises(UsageError, match="pass-rates go from 0 to 1"):
        order.bounds("pass-rate", [10, 90])


def test_places_that_cannot_be_written_are_named_first(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder; name the file in it"):
        order.check_place(tmp_path, force=True)
    with pytest.raises(UsageError, match=r"there is no folder .*gone"):
        order.check_place(tmp_path / "gone" / "o.txt", force=True)
    (tmp_path / "o.txt.json").write_text("{}")
    with pytest.raises(RefusedError, match=r"o\.txt\.json already exists"):
        order.check_place(tmp_path / "o.txt", force=False)
    order.check_place(tmp_path / "o.txt", force=True)


JOB = {"id": "j1", "model": "m a", "kind": "free_response.chat", "repeats": 1, "grade_key": "g"}
REPLY: dict[str, Any] = {
    "benchmark": "gsm8k", "by": "level", "asked": 4000, "left_out": {"below the band": 1000},
    "jobs": [JOB, JOB | {"id": "j2", "model": "b"}],
    "rows": [
        {"id": "q1", "value": 20240001, "pass_rate": 1 / 3, "right": 1, "n": 3},
        {"id": "q2", "value": 10**400, "pass_rate": None, "right": 0, "n": 0},
    ],
}  # fmt: skip


def test_the_command_asks_the_same_models_in_the_same_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert order.lines(REPLY) == [
        "2 of 4,000 rows of gsm8k by level, the lowest first",
        "left out: 1,000 below the band",
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hard ones").write_text("q1\n")
    written, command = order.lines_about_file(REPLY, "hard ones")
    assert written == "written to hard ones, the rates to hard ones.json"
    assert command == (
        "to ask these rows in this order: rwkvctl dispatch --models 'm a' b --only-datasets gsm8k "
        "--only-jobs free_response.chat --set 'order=./hard ones'"
    )
    other = REPLY | {"jobs": [JOB, JOB | {"kind": "free_response"}]}
    assert "--only-jobs free_response.chat free_response --set" in order.lines_about_file(other, "hard ones")[1]
    monkeypatch.setattr(selection, "LARGEST_ORDER", 11)
    assert "choose a narrower --band" in order.lines_about_file(REPLY, "hard ones")[1]
    monkeypatch.setattr(selection, "LARGEST_ORDER", 12)
    assert "narrower" not in order.lines_about_file(REPLY, "hard ones")[1]


def test_numbers_of_a_field_are_shown_whole() -> None:
    table = order_table.rows(REPLY)
    assert [column.title for column in table.columns] == ["ROW", "LEVEL", "PASS-RATE", "RIGHT", "N"]
    (first, second) = table.rows
    assert [getattr(cell, "text", cell) for cell in first] == ["q1", "20240001", "0.333", "1", "3"]
    assert [getattr(cell, "plain", "") for cell in first][1:3] == ["20240001", repr(1 / 3)]
    assert getattr(second[1], "text", "") == str(10**400)
    assert second[2] == ""
