"""A terminal that reads what the console sends, as far as these tests need one; and the console as a program on it."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from dataclasses import dataclass, field
from pathlib import Path

from waiting import LIMIT_S

from rwkvctl.text.sanitize import cell_width

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
    rest: str = ""

    def feed(self, text: str) -> None:
        """Read what was sent, which may end within a sequence."""
        text = self.rest + text
        last = text.rfind("\x1b")
        begun = SEQUENCE.match(text, last) if last >= 0 else None
        whole = last < 0 or (begun is not None and begun["char"] is None)
        text, self.rest = (text, "") if whole else (text[:last], text[last:])
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
        """Return the visible text, one string for each row, without trailing blanks."""
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


class Shell:
    """The console, or another verb, as a program on a pty, against the daemon on a socket. It has sent `received`."""

    def __init__(self, socket: Path, size: tuple[int, int], *words: str, **environ: str) -> None:
        self.received, self.screen = "", Terminal(*size)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        given = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8",
                 "RWKVCTL_SOCKET": str(socket), "HOME": str(socket.parent)} | environ  # fmt: skip
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
            os.execve(sys.executable, [sys.executable, "-m", "rwkvctl.cli", *(words or ("tui",))], given)

    def read(self, wait_s: float) -> bool:
        """Read what comes within a time."""
        if not select.select([self.fd], [], [], wait_s)[0]:
            return False
        try:
            text = self._decode(os.read(self.fd, 65536))
        except OSError:
            return False
        self.received += text
        self.screen.feed(text)
        return True

    def type(self, keys: str, *words: str, gone: str = "") -> None:
        """Type, and wait until all of these words are seen, and another is not."""
        os.write(self.fd, keys.encode())
        end = time.monotonic() + LIMIT_S
        while True:
            text = "\n".join(self.screen.lines())
            if all(word in text for word in words) and not (gone and gone in text):
                return
            assert time.monotonic() < end, f"{words} {gone!r} after {keys!r}:\n{text}"
            self.read(0.05)

    def end(self) -> None:
        """Kill the program, reap it and close its terminal."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
