"""Where the last lines of a log begin, and reading it in pieces without cutting characters."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.logs import log_reader


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file to fill, while blocks are so small that every log has several."""
    patch = pytest.MonkeyPatch()
    patch.setattr(log_reader, "CHUNK_BYTES", 7)
    yield tmp_path_factory.mktemp("logs") / "log-1.txt"
    patch.undo()


def naive(data: bytes, lines: int) -> int:
    """All lines, the last of which may lack its end; count the bytes of the wanted ones."""
    kept = data.splitlines(keepends=True)[-lines:] if lines > 0 else []
    return len(data) - sum(len(line) for line in kept)


@given(
    st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\r", b".")), max_size=8),
    st.booleans(),
    st.integers(-1, 10),
)
def test_the_tail_begins_where_a_naive_reader_says(log: Path, parts: list[bytes], ended: bool, lines: int) -> None:
    data = b"\n".join(parts) + b"\n" * ended
    log.write_bytes(data)
    assert log_reader.start_of_tail(log, lines) == naive(data, lines)


@pytest.mark.parametrize("lines", [0, 1, 60])
def test_a_log_that_is_not_there_or_empty_begins_at_zero(tmp_path: Path, lines: int) -> None:
    assert log_reader.start_of_tail(tmp_path / "none.txt", lines) == 0
    (tmp_path / "empty.txt").touch()
    assert log_reader.start_of_tail(tmp_path / "empty.txt", lines) == 0


def pieces(log: Path) -> Iterator[bytes]:
    """The pieces of a log in order, each read from where the one before it ended."""
    offset = 0
    with log.open("rb") as file:
        while data := log_reader.read_piece(file.fileno(), offset).data:
            yield data
            offset += len(data)


@given(st.text(max_size=40) | st.text("aé€🐦\n", max_size=60))
def test_text_read_in_pieces_is_the_text(log: Path, text: str) -> None:
    log.write_bytes(text.encode())
    offset, found = 0, ""
    for data in pieces(log):
        found += data.decode(errors="replace")
        offset += len(data)
    assert found == text
    assert offset == len(text.encode())


@given(st.binary(max_size=60))
def test_bytes_that_are_no_text_are_read_to_the_end_all_the_same(log: Path, data: bytes) -> None:
    log.write_bytes(data)
    assert b"".join(pieces(log)) == data
