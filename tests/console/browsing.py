"""A page in headless Chromium: opened, looked at and clicked over its debugging pipe."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_for

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-extensions", "--remote-debugging-pipe", "--window-size=1280,900")  # fmt: skip

LAUNCH = """
import fcntl, os, sys
kept = [fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3]]
for number, one in enumerate(kept, 3):
    os.dup2(one, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""A browser reads commands from descriptor 3 and answers on 4, whatever the numbers of our pipes are."""


class Page:
    """One tab. `look` runs an expression in the page; `noise` are the messages of its console and its errors."""

    def __init__(self, to: int, back: int) -> None:
        self.to, self.back, self.number, self.rest, self.session = to, back, 0, b"", ""
        self.noise: list[str] = []

    def ask(self, method: str, **params: Any) -> Any:
        """Send a command and wait for its answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        os.write(self.to, json.dumps(message | ({"sessionId": self.session} if self.session else {})).encode() + b"\0")
        while True:
            heard = self.hear()
            if heard.get("id") == self.number:
                assert "error" not in heard, heard
                return heard["result"]

    def hear(self) -> Any:
        """The next message."""
        while b"\0" not in self.rest:
            piece = os.read(self.back, 1 << 20)
            assert piece, "the browser has gone"
            self.rest += piece
        first, _, self.rest = self.rest.partition(b"\0")
        heard = json.loads(first)
        if heard.get("method") in {"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"}:
            self.noise.append(json.dumps(heard["params"]))
        return heard

    def begin(self) -> None:
        """Attach to a tab."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for room in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{room}.enable")

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file and wait until it has been read whole."""
        self.ask("Page.navigate", url=path.as_uri() + fragment)
        self.until("document.readyState === 'complete'")

    def look(self, expression: str) -> Any:
        """The value of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        wait_for(lambda: self.look(expression), f"{expression} in the page")

    def click(self, selector: str) -> None:
        """Click with the mouse in the middle of an element."""
        where = self.look(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            " one.scrollIntoView({block: 'center'}); const box = one.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=where[0], y=where[1], button="left", clickCount=1)

    def type(self, selector: str, text: str) -> None:
        """Put a text into a field, as typed."""
        self.look(f"document.querySelector({json.dumps(selector)}).select()")
        self.click(selector)
        self.look(f"document.querySelector({json.dumps(selector)}).select()")
        if text:
            self.ask("Input.insertText", text=text)
        else:
            self.press("Backspace", 8)

    def press(self, key: str, code: int) -> None:
        """A key that is no letter."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)


@contextlib.contextmanager
def browsing(profile: Path) -> Iterator[Page]:
    """A tab of a browser of one's own; skips where there is none."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs chromium: not installed")
    theirs, ours = os.pipe()
    back, out = os.pipe()
    words = [sys.executable, "-c", LAUNCH, str(theirs), str(out), program, *FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(words, pass_fds=(theirs, out), stderr=subprocess.DEVNULL)
    os.close(theirs)
    os.close(out)
    try:
        page = Page(ours, back)
        page.begin()
        yield page
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(back)
