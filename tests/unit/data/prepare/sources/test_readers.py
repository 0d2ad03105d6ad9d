"""The readers of raw rows: whatever is written in a form comes back from it, and what is bad is one sentence."""

import csv
import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import json_rows, streams, table_rows, text_rows, xml_rows

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
objects = st.lists(st.dictionaries(st.text(max_size=5), values, max_size=3), max_size=3)


def rows_of(reader, content: bytes, *arguments, **options):
    return [row for _, row in reader(io.BytesIO(content), "FILE", *arguments, **options)]


def places_of(reader, content: bytes, *arguments, **options):
    return [place for place, _ in reader(io.BytesIO(content), "FILE", *arguments, **options)]


@given(objects, st.booleans())
def test_json_lines_come_back(rows, ascii_only: bool) -> None:
    lines = "".join(json.dumps(row, ensure_ascii=ascii_only) + "\n\n" for row in rows)
    content = lines.encode("utf-8", "surrogatepass")
    try:
        content.decode()
    except UnicodeDecodeError:
        with pytest.raises(PrepareError, match="not UTF-8"):
            rows_of(json_rows.of_lines, content)
    else:
        assert rows_of(json_rows.of_lines, content) == rows
        assert places_of(json_rows.of_lines, content) == [f"FILE:{2 * n + 1}" for n in range(len(rows))]


@given(objects, st.sampled_from(["list", "examples", "data"]))
def test_json_documents_come_back(rows, form: str) -> None:
    document = rows if form == "list" else {"canary": "c", form: rows}
    assert rows_of(json_rows.of_document, json.dumps(document, indent=1).encode()) == rows


@given(objects.filter(lambda rows: len(rows) > 1))
def test_json_lines_in_a_file_that_is_called_json(rows) -> None:
    content = "\n".join(map(json.dumps, rows)).encode()
    assert rows_of(json_rows.of_document, content) == rows


def refusal(reader, content: bytes) -> str:
    """Return a reader's error for a content; "FILE" if there is none."""
    try:
        rows_of(reader, content)
    except PrepareError as error:
        return str(error)
    return "FILE"


@given(st.binary(max_size=60) | st.text('[]{}",:0 \n\t', max_size=30).map(str.encode))
def test_hostile_json_is_refused_in_one_sentence(content: bytes) -> None:
    for reader in (json_rows.of_lines, json_rows.of_document, text_rows.of_text, xml_rows.of_xml):
        assert refusal(reader, content).startswith("FILE")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"[1]", "FILE item 1: not a JSON object"),
        (b'{"version": 1}', "FILE holds no JSON list"),
        (b"[" * 100_000, "FILE: not JSON"),
        (b"[" + b"9" * 5000 + b"]", "FILE: not JSON"),
        (b"", "FILE: not JSON"),
        (b"[] []", "FILE:1: not JSON"),
    ],
)
def test_json_that_holds_no_rows(content: bytes, complaint: str) -> None:
    with pytest.raises(PrepareError) as caught:
        rows_of(json_rows.of_document, content)
    assert str(caught.value).startswith(complaint)


def test_integers_keep_all_their_digits_and_line_ends_of_unicode_end_no_line() -> None:
    row = {"n": 10**40, "x": float("inf"), "text": "a\u2028b\x85c\x0cd"}
    assert rows_of(json_rows.of_lines, json.dumps(row, ensure_ascii=False).encode()) == [row]


cells = st.text(max_size=6).filter(lambda text: "\0" not in text and "\r" not in text)
tables = st.lists(st.lists(cells, min_size=2, max_size=4).filter(any), max_size=5)


def written(records, *, tabs: bool) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file, delimiter="\t" if tabs else ",", lineterminator="\n").writerows(records)
    return file.getvalue().encode("utf-8", "surrogatepass")


@given(tables, st.booleans())
def test_tables_without_a_header_come_back(records, tabs: bool) -> None:
    found = rows_of(table_rows.of_table, written(records, tabs=tabs), "s", tabs=tabs, header=False)
    assert found == [{"cells": record, "subject": "s"} for record in records]


@given(st.lists(st.tuples(cells, cells), max_size=5))
def test_tables_with_a_header_come_back(pairs) -> None:
    content = written([("Question", "Correct Answer"), *pairs], tabs=False)
    expected = [{"Question": question, "Correct Answer": answer} for question, answer in pairs]
    assert rows_of(table_rows.of_table, content, "s", tabs=False) == expected


@pytest.mark.parametrize(
    ("first", "header"),
    [
        (["", "Question", "A", "B", "C", "D", "Answer"], True),
        (["id", "question", "A", "B", "C", "D", "answer", "explanation"], True),
        (["id", "question", "A", "B", "C", "D"], True),
        (["Pre-Revision Question", "Question", "Correct Answer", "Incorrect Answer 1"], True),
        (["metadata", "problem", "answer"], True),
        (["Find all c in Z_3 such that Z_3[x]/(x^2 + c) is a field.", "0", "1", "2", "3", "B"], False),
        (["What is the question?", "answer", "Answer", "text", "label", "B"], False),
        (["question", "question", "answer"], False),
        (["text"], False),
    ],
)
def test_headers_are_told_from_questions(first: list[str], header: bool) -> None:
    assert table_rows.is_header(first) is header


def test_words_that_look_like_nothing_stay_words() -> None:
    content = b"question,A,B,C,D,answer\nWhich?,None,N/A,nan,,A\n"
    (row,) = rows_of(table_rows.of_table, content, "s", tabs=False)
    assert row == {"question": "Which?", "A": "None", "B": "N/A", "C": "nan", "D": "", "answer": "A"}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"question,answer\na,b\nc\n", "FILE:3: 1 cells under 2 columns"),
        (b'question,answer\n"a\nb",c\n"open', "FILE:4: unexpected end of data"),
        (b"question,answer\na,b\n\xff,c\n", "FILE: not UTF-8 after line"),
    ],
)
def test_bad_tables_are_named_by_line(content: bytes, complaint: str) -> None:
    with pytest.raises(PrepareError) as caught:
        rows_of(table_rows.of_table, content, "s", tabs=False)
    assert str(caught.value).startswith(complaint)


def test_long_cells_are_read() -> None:
    content = b"question,answer\n" + b"x" * 300_000 + b",1\n"
    assert len(rows_of(table_rows.of_table, content, "s", tabs=False)[0]["question"]) == 300_000


def test_texts_are_one_row_or_json_lines() -> None:
    assert rows_of(text_rows.of_text, b"canary\n-----\nQ: 1\n") == [{"text": "canary\n-----\nQ: 1\n"}]
    assert rows_of(text_rows.of_text, b'\n{"a": 1}\n{"a": 2}\n') == [{"a": 1}, {"a": 2}]


ASDIV = """<?xml version="1.0" encoding="UTF-8"?>
<Machine-Reading-Corpus-File><ProblemSet>
<Problem ID="nluds-0001" Grade="1" Source="http://a.b"><Body>Seven &amp; two.</Body>
<Question>How many?</Question><Answer>9 (apples)</Answer><Formula>7+2=9</Formula></Problem>
<Problem ID="nluds-0002" Grade="2" Source="x"><Body/><Question>Q</Question><Answer>1</Answer></Problem>
</ProblemSet></Machine-Reading-Corpus-File>"""


def test_elements_with_texts_are_rows() -> None:
    first, second = rows_of(xml_rows.of_xml, ASDIV.encode())
    assert first == {
        "ID": "nluds-0001",
        "Grade": "1",
        "Source": "http://a.b",
        "Body": "Seven & two.",
        "Question": "How many?",
        "Answer": "9 (apples)",
        "Formula": "7+2=9",
    }
    assert second["Body"] == ""
    assert places_of(xml_rows.of_xml, ASDIV.encode()) == ["FILE:4", "FILE:5"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><a><x>&c;</x></a>', "declares a document type"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a><x>1</x></a>', "declares a document type"),
        ("<a>" * 100 + "</a>" * 100, "nests more than 64"),
        ("<a><b>1</a>", "not XML"),
        ("<a><b>&unknown;</b></a>", "not XML"),
    ],
)
def test_hostile_xml_is_refused(content: str, complaint: str) -> None:
    with pytest.raises(PrepareError, match=complaint):
        rows_of(xml_rows.of_xml, content.encode())


def test_what_unpacks_too_far_is_refused() -> None:
    bomb = gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(b"\n" * 100_000)))
    with pytest.raises(PrepareError, match="FILE unpacks to more than any set of rows holds"):
        list(streams.lines(streams.unpacked(bomb, streams.Budget("FILE", 50_000)), "FILE"))


def test_the_members_of_an_archive_share_what_they_may_unpack_to() -> None:
    budget = streams.Budget("FILE", 150)
    assert streams.unpacked(io.BytesIO(b"x" * 100), budget).read() == b"x" * 100
    with pytest.raises(PrepareError):
        streams.unpacked(io.BytesIO(b"x" * 100), budget).read()


def test_lines_and_whole_texts_have_a_limit() -> None:
    assert list(streams.lines(io.BytesIO(b"a\nb\r\x0b\n\nc"), "FILE")) == [b"a\n", b"b\r\x0b\n", b"\n", b"c"]
    with pytest.raises(PrepareError, match="a line of more than 4 bytes"):
        list(streams.lines(io.BytesIO(b"ab\nabcde\n"), "FILE", 4))
    with pytest.raises(PrepareError, match="more than 4 bytes in one piece"):
        streams.whole(io.BytesIO(b"abcde"), "FILE", 4)
