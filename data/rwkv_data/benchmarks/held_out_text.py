"""Text of the operator's own, which no model has been trained on: how many bits a byte of it costs.

    {"text": "a document"} a line of JSON, or a .txt file, which is one document

The catch: bits per byte depend on where documents begin, because each is read from an empty state. A text longer than
64 KiB is cut into pieces of whole lines; the pieces, not the whole, are then the documents. Scores compare only on the
same rows.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Row, by_name
from rwkv_data.profiles.language_model import perplexity

PIECE = 1 << 16
"""Maximum size of a document in bytes."""


def pieces(raws: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows with long texts cut at line ends, or inside a line that is too long itself."""
    for raw in raws:
        for piece in cut(rows.text(raw, "text")):
            yield {"text": piece}


def cut(text: str) -> Iterator[str]:
    """Yield pieces of at most PIECE bytes that together are the text; blank ones are left out."""
    piece: list[str] = []
    size = 0
    for line in _lines(text):
        length = len(line.encode("utf-8", "replace"))
        if size + length > PIECE and piece:
            yield from _kept(piece)
            piece, size = [], 0
        piece.append(line)
        size += length
    yield from _kept(piece)


def _kept(piece: list[str]) -> list[str]:
    whole = "".join(piece)
    return [whole] if whole.strip() else []


def _lines(text: str) -> Iterator[str]:
    # A character is at most four bytes long.
    longest = PIECE // 4
    for line in text.splitlines(keepends=True):
        yield from (line[start : start + longest] for start in range(0, len(line), longest))


def from_source(raw: Row) -> dict[str, Any]:
    """Return a row that holds the text alone."""
    return {"text": rows.text(raw, "text")}


def check_row(row: Row) -> None:
    """Check that a row has text. Raises RowError."""
    rows.text(row, "text")


_DOCUMENT = {"text": "Four."}
_BIT = -5 * 0.6931471805599453
"""Log-likelihood, in nats, of a five-byte document at one bit a byte."""

BENCHMARK = Benchmark(
    name="held_out_text",
    version=1,
    domain="language_model",
    title="Held-out text, bits per byte",
    licence="your own",
    split="test",
    rows=0,
    from_source=from_source,
    expand=pieces,
    check_row=check_row,
    local_files=("test.jsonl", "*.jsonl", "*.txt"),
    kinds=by_name([perplexity()]),
    examples=(
        Example(_DOCUMENT, Answer(logprobs=(_BIT,)), 1.0),
        Example(_DOCUMENT, Answer(logprobs=(0.0,)), 0.0),
    ),
)
