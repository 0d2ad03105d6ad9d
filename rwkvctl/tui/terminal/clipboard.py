"""Copying to the operator's own clipboard, over SSH and through tmux or screen; only ever on their key.

tmux drops OSC 52 of programs unless it is configured, but passes on what is loaded into its buffer with `-w`.
"""

import base64
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

MOST_BYTES: Final = 70_000
"""What terminals take by OSC 52 without cutting it off."""
TMUX_S: Final = 3.0
SCREEN_CHUNK: Final = 700
"""GNU screen passes on strings of at most 768 bytes."""


def copy(text: str, write: Callable[[str], None], environ: Mapping[str, str]) -> str:
    """Copy a text; `write` reaches the terminal. Returns by which way, empty if it is too long for one."""
    if environ.get("TMUX") and by_tmux(text):
        return "tmux"
    if len(text.encode(errors="replace")) > MOST_BYTES:
        return ""
    inner_screen = environ.get("TERM", "").startswith("screen") and not environ.get("TMUX")
    write(through_screen(osc52(text)) if inner_screen else osc52(text))
    return "screen" if inner_screen else "terminal"


def by_tmux(text: str) -> bool:
    """Load tmux's buffer and let it tell the terminal outside."""
    command = ["tmux", "load-buffer", "-w", "-"]
    try:
        found = subprocess.run(
            command, input=text.encode(errors="replace"), capture_output=True, timeout=TMUX_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return found.returncode == 0


def osc52(text: str) -> str:
    """Return the OSC 52 sequence that sets the terminal's clipboard."""
    return f"\x1b]52;c;{base64.b64encode(text.encode(errors='replace')).decode()}\x07"


def through_screen(sequence: str) -> str:
    """Return the sequence wrapped for the terminal outside GNU screen."""
    parts = [sequence[at : at + SCREEN_CHUNK] for at in range(0, len(sequence), SCREEN_CHUNK)]
    return "".join(f"\x1bP{part}\x1b\\" for part in parts)
