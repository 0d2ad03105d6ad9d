"""The line that says where a row comes from."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_rows import TEACHER, TEXTS, lineage

from rwkv_data.definition.errors import RowError
from rwkv_data.recipes.files.json_line import json_line
from rwkv_data.recipes.files.lineage import Lineage, lineage_line, parsed_line

SHA = "c" * 64
LINE = lineage_line(lineage(), SHA)


def test_a_line_is_a_json_object_with_all_that_is_known() -> None:
    model = {"base_url": TEACHER.base_url, "model": TEACHER.model, "revision": TEACHER.revision}
    found = json.loads(LINE)
    assert LINE.endswith(b"}\n")
    assert found == {
        "row_id": "gsm8k_train/1", "rows_sha256": "a" * 64, "selector": "shortest-correct",
        "samples": [
            {"use": "answer", "job": 82, "row": 901, "repeat": 1, "grade_key": "g82", "right": True,
             "weights_sha256": "", "endpoint": model},
            {"use": "source", "job": 81, "row": 101, "repeat": 2, "grade_key": "g81", "right": True,
             "weights_sha256": "b" * 64, "endpoint": None},
        ],
        "writers": [{"rule": "thought-solution/1", "endpoint": model}],
        "sha256": SHA, "line_sha256": found["line_sha256"],
    }  # fmt: skip
    body = LINE[: LINE.index(b',"line_sha256"')] + b"}"
    assert hashlib.sha256(body).hexdigest() == found["line_sha256"]


@given(st.sampled_from(TEXTS), st.sampled_from(TEXTS))
def test_a_line_is_read_back_and_holds_no_line_end(name: str, selector: str) -> None:
    given = lineage(row_id=name, selector=selector)
    line = lineage_line(given, SHA)
    assert len(line.decode().splitlines()) == 1
    read = parsed_line(line)
    assert Lineage(**{field: getattr(read, field) for field in Lineage.__struct_fields__}) == given
    assert read.sha256 == SHA


def test_any_changed_byte_is_found() -> None:
    for at in range(len(LINE) - 1):
        for byte in {LINE[at] ^ 1, LINE[at] ^ 0x20, 0, 10, 0xFF} - {LINE[at]}:
            with pytest.raises(RowError):
                parsed_line(LINE[:at] + bytes([byte]) + LINE[at + 1 :])


@pytest.mark.parametrize("line", [b"", b"\n", b"{}\n", b"null\n", LINE[1:], LINE[:-2], LINE[:-1] + LINE, b"\xff\n"])
def test_what_is_no_line_is_refused(line: bytes) -> None:
    with pytest.raises(RowError, match="changed after it was written"):
        parsed_line(line)


@pytest.mark.parametrize("body", [b"[]", b'{"row_id": 1}', b"{\xff}", json.dumps({"sha256": SHA}).encode()])
def test_a_line_with_a_hash_that_fits_may_still_be_none(body: bytes) -> None:
    line = body[:-1] + f',"line_sha256":"{hashlib.sha256(body[:-1] + b"}").hexdigest()}"}}\n'.encode()
    with pytest.raises(RowError, match="not lineage"):
        parsed_line(line)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_is_on_one_line_for_every_reader(text: str) -> None:
    line = json_line({"text": text})
    assert json.loads(line) == {"text": text}
    assert line.decode().splitlines(keepends=True) == [line.decode()]
