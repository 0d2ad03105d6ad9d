"""Raw rows of plain text: a file of JSON lines that is called .txt, or one row that is the whole text."""

import io
from collections.abc import Iterator
from typing import IO

from rwkv_data.prepare.sources import json_rows, streams
from rwkv_data.prepare.sources.raw import Placed


def of_text(stream: IO[bytes], where: str) -> Iterator[Placed]:
    """{"text": everything}; NeMo-Skills keeps its JSON lines in test.txt, which a `{` at the beginning gives away."""
    content = streams.whole(stream, where)
    if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        yield from json_rows.of_lines(io.BytesIO(content), where)
    else:
        yield where, {"text": streams.decoded(content, where)}
