"""The log's three formats, and that a flood of the same line is no flood."""

import errno
import json
import logging
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.host.daemon_log import (
    AT_MOST,
    WINDOW_S,
    JournalFormatter,
    JsonFormatter,
    Repeats,
    StderrHandler,
    TextFormatter,
    is_journal,
)
from rwkv_daemon.store import ConflictError, StoreError


def record(text: str, level: int = logging.INFO, **fields: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"msg": text, "levelno": level, "levelname": logging.getLevelName(level)} | fields)
    made.created = 1_790_000_000.25
    return made


def failing() -> logging.LogRecord:
    try:
        raise ValueError("broken\nin two lines")
    except ValueError:
        return record("it failed", logging.ERROR, exc_info=sys.exc_info(), job="j7")


def test_what_the_machine_lacks_is_said_without_a_traceback() -> None:
    handler = StderrHandler({})
    try:
        raise OSError(errno.EMFILE, "Too many open files", "/x")
    except OSError:
        lacking = record("hashing stopped", logging.ERROR, exc_info=sys.exc_info())
    assert handler.filter(lacking)
    assert handler.format(lacking).endswith("ERROR hashing stopped: Too many open files")
    mistake = failing()
    assert handler.filter(mistake)
    assert "Traceback" in handler.format(mistake)


def test_a_store_that_does_not_answer_is_said_without_a_traceback() -> None:
    handler = StderrHandler({})
    try:
        raise StoreError("it does not answer")
    except StoreError:
        away = record("hashing stopped", logging.ERROR, exc_info=sys.exc_info())
    assert handler.filter(away)
    assert handler.format(away).endswith("ERROR hashing stopped: it does not answer")
    try:
        raise ConflictError("there is such a row")
    except ConflictError:
        mistake = record("it failed", logging.ERROR, exc_info=sys.exc_info())
    assert handler.filter(mistake)
    assert "Traceback" in handler.format(mistake)


def test_for_people_a_line_has_time_level_and_what_it_is_about() -> None:
    line = TextFormatter().format(record("done", job="j7", engine="", attempt=2))
    assert line == "2026-09-21 14:13:20 INFO done job=j7 attempt=2"


@pytest.mark.parametrize(
    ("level", "number"),
    [(logging.DEBUG, 7), (logging.INFO, 6), (logging.WARNING, 4), (logging.ERROR, 3), (logging.CRITICAL, 2)],
)
def test_the_journal_reads_the_priority(level: int, number: int) -> None:
    assert JournalFormatter().format(record("x", level)) == f"<{number}>x"


def test_each_line_of_a_traceback_has_the_priority() -> None:
    lines = JournalFormatter().format(failing()).split("\n")
    assert len(lines) > 4
    assert all(line.startswith("<3>") for line in lines)
    assert lines[0] == "<3>it failed job=j7"


@given(st.text(max_size=80))
def test_json_is_one_line_whatever_is_said(text: str) -> None:
    line = JsonFormatter().format(record(text, job="j1"))
    assert "\n" not in line
    found = json.loads(line)
    assert (found["message"], found["level"], found["job"]) == (text, "info", "j1")
    assert found["at"] == "2026-09-21T14:13:20.250Z"


def test_json_has_the_traceback_in_a_field() -> None:
    assert "ValueError: broken" in json.loads(JsonFormatter().format(failing()))["exception"]


def test_the_same_is_said_a_few_times_and_then_counted() -> None:
    now = 0.0
    repeats = Repeats(lambda: now)
    passed = [repeats.filter(record("no room")) for _ in range(40)]
    assert passed == [True] * AT_MOST + [False] * (40 - AT_MOST)
    assert repeats.filter(record("something else"))
    now = WINDOW_S + 1
    again = record("no room")
    assert repeats.filter(again)
    assert again.getMessage() == f"no room ({40 - AT_MOST} more like this were left out)"


def test_the_same_words_at_another_level_are_something_else() -> None:
    repeats = Repeats(lambda: 0.0)
    assert all(repeats.filter(record("x")) for _ in range(AT_MOST))
    assert repeats.filter(record("x", logging.ERROR))


def test_what_is_remembered_is_bounded() -> None:
    repeats = Repeats(lambda: 0.0)
    for number in range(5000):
        repeats.filter(record(f"line {number}"))
    assert len(repeats.seen) == 1000


def test_the_journal_is_known_by_the_stream_it_names() -> None:
    found = os.fstat(2)
    assert is_journal(f"{found.st_dev}:{found.st_ino}", 2)
    assert not is_journal("8:1", 2)
    assert not is_journal("", 2)
    assert not is_journal("8:1", 9999)


FORGED = "There is no /x\n2026-01-01 00:00:00 ERROR forged\x00<0>forged\u2028forged\x1b[2J."


@pytest.mark.parametrize("formatter", [TextFormatter(), JournalFormatter()])
def test_what_a_client_sent_begins_no_line_of_its_own_and_reaches_no_terminal(formatter: logging.Formatter) -> None:
    """The journal takes NUL for the end of a line, and `<0>` after it for an emergency."""
    said = formatter.format(record(FORGED, job=FORGED))
    assert not {"\n", "\0", "\x1b", "\u2028"} & set(said)


def test_a_message_has_an_end() -> None:
    for formatter in (TextFormatter(), JournalFormatter(), JsonFormatter()):
        assert len(formatter.format(record("x" * 10**6))) < 5000
    repeats = Repeats()
    assert repeats.filter(record("x" * 10**6))
    assert all(len(text) < 5000 for _, text in repeats.seen)
