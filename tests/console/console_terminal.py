"""A terminal that reads what the console sends: cells with their styles, as far as these tests need one."""

import re
from dataclasses import dataclass, field

from rwkvctl.safe import cell_width

SEQUENCE = re.compile(
    r"\x1b\[(?P<args>[\d;?<>=$]*)(?P<end>[A-Za-z])|\x1b\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)|\x1b[=>]"
    r"|\x1b\[\?\d+\$p|(?P<char>.)",
    re.DOTALL,
)
BLANK = (" ", "")


@dataclass
class Terminal:
    """Cells of a screen: text (the second half of a wide one is empty) and codes in force when it was written."""

    width: int
    height: int
    cells: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    x: int = 0
    y: int = 0
    codes: tuple[str, ...] = ()

    def feed(self, text: str) -> None:
        """Read what was sent."""
        for match in SEQUENCE.finditer(text):
            if match["char"] is not None:
                self.put(match["char"])
            elif match["end"] and "?" not in match["args"]:
                self.obey(match["args"], match["end"])

    def obey(self, args: str, end: str) -> None:
        """Carry out a control sequence."""
        numbers = [int(arg) if arg.isdecimal() else 0 for arg in args.split(";")]
        if end == "H":
            self.y, self.x = max(1, numbers[0]) - 1, max(1, (numbers[1:] or [1])[0]) - 1
        elif end == "C":
            self.x += max(1, numbers[0])
        elif end == "m":
            self.style(args.split(";"))

    def style(self, args: list[str]) -> None:
        """Change the codes in force, in the three groups that a terminal keeps."""
        place = 0
        while place < len(args):
            code = args[place] or "0"
            size = 5 if code in {"38", "48"} and args[place + 1] == "2" else 3 if code in {"38", "48"} else 1
            whole = ";".join(args[place : place + size])
            if code == "0":
                self.codes = ()
            elif code in {"39", "49"}:
                self.codes = tuple(known for known in self.codes if group(known) != group(code))
            elif group(code) == "attribute":
                self.codes = tuple(sorted({*self.codes, whole}))
            else:
                rest = [known for known in self.codes if group(known) != group(code)]
                self.codes = tuple(sorted([*rest, whole]))
            place += size

    def put(self, char: str) -> None:
        """Write a character; one without a width goes on the one before."""
        if char == "\n":
            self.y += 1
        elif char == "\r":
            self.x = 0
        elif ord(char) >= 32:
            width = cell_width(char)
            if not width:
                before = self.x - 1 if self.cells.get((self.x - 1, self.y), BLANK)[0] else self.x - 2
                text, codes = self.cells.get((before, self.y), BLANK)
                self.cells[before, self.y] = (text + char, codes)
                return
            for x in range(self.x, self.x + width):
                self.clear_wide(x)
            codes = " ".join(self.codes)
            self.cells[self.x, self.y] = (char, codes)
            if width == 2:
                self.cells[self.x + 1, self.y] = ("", codes)
            self.x = min(self.x + width, self.width - 1 if self.x + width > self.width else self.width)

    def clear_wide(self, x: int) -> None:
        """Half of a wide character is written over: its other half becomes blank."""
        text = self.cells.get((x, self.y), BLANK)[0]
        if text == "":
            self.cells[x - 1, self.y] = (" ", self.cells[x - 1, self.y][1])
        elif self.cells.get((x + 1, self.y), BLANK)[0] == "":
            self.cells[x + 1, self.y] = (" ", self.cells[x + 1, self.y][1])

    def lines(self) -> list[str]:
        """What is seen."""
        return [
            "".join(self.cells.get((x, y), BLANK)[0] for x in range(self.width)).rstrip() for y in range(self.height)
        ]

    def styled(self) -> list[list[tuple[str, str]]]:
        """What is seen, with its styles."""
        return [[self.cells.get((x, y), BLANK) for x in range(self.width)] for y in range(self.height)]


def group(code: str) -> str:
    """Which codes replace one another."""
    number = int(code.split(";", maxsplit=1)[0])
    if 30 <= number <= 39 or 90 <= number <= 97:
        return "front"
    return "back" if 40 <= number <= 49 or 100 <= number <= 107 else "attribute"
