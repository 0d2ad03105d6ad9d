"""Raw rows of XML: every element whose children hold only text is a row of its attributes and those texts.

ASDiv (github chaochun/nlu-asdiv-dataset) has `<Problem ID="nluds-0001" Grade="1"><Body>...</Body>...</Problem>`.
Document types are refused, and with them every entity that could grow or reach outside.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Final
from xml.parsers import expat

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import streams
from rwkv_data.prepare.sources.raw import Placed

MOST: Final = 256 << 20
DEEPEST: Final = 64


@dataclass(slots=True)
class _Element:
    attributes: dict[str, str]
    texts: list[str] = field(default_factory=list)
    children: dict[str, str] = field(default_factory=dict)
    flat: bool = True


class _Rows:
    """Collects rows while the parser walks; `found` holds (line, row)."""

    def __init__(self, where: str) -> None:
        self.where, self.found = where, list[tuple[int, dict[str, Any]]]()
        self._open: list[_Element] = []
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def _doctype(self, *_: object) -> None:
        raise PrepareError(f"{self.where} declares a document type, which no set of rows needs")

    def _start(self, _name: str, attributes: dict[str, str]) -> None:
        if len(self._open) >= DEEPEST:
            raise PrepareError(f"{self.where} nests more than {DEEPEST} elements")
        self._open.append(_Element(attributes))

    def _text(self, text: str) -> None:
        self._open[-1].texts.append(text)

    def _end(self, name: str) -> None:
        element = self._open.pop()
        if element.children and element.flat:
            self.found.append((self.parser.CurrentLineNumber, element.attributes | element.children))
        if not self._open:
            return
        parent = self._open[-1]
        if element.children:
            parent.flat = False
        parent.children[name] = "".join(element.texts).strip()


def of_xml(stream: IO[bytes], where: str) -> Iterator[Placed]:
    """The rows of one XML file, each with the line it ends in."""
    rows = _Rows(where)
    try:
        rows.parser.Parse(streams.whole(stream, where, MOST), True)
    except (expat.ExpatError, UnicodeError) as error:
        raise PrepareError(f"{where}: not XML ({error})") from None
    for line, row in rows.found:
        yield f"{where}:{line}", row
