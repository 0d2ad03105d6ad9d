"""Pictures of the console for README and docs, from a node that really measures: `make pictures`.

    python scripts/pictures.py [FOLDER] [SCREEN ...]

A private daemon on a scratch home measures the built-in checkpoint and two that are worse (the same with noise in the
last layer's scale), while the console is opened on it and led to each screen by its keys. Textual draws the SVG, and
headless Chromium makes a PNG of it, as other renderers move the columns.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from rwkv_data.prepare.prepare import prepare_own
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.cli.client import Client
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.tui.app import Console
from rwkvctl.tui.options import Options

SIZE = (120, 36)
PATIENCE_S = 120.0
WORSE = {"rwkv7-g1-0.1b-20260801-ctx4096": 0.8, "rwkv7-g1-0.1b-20260910-ctx4096": 0.4}
"""Checkpoints beside the built-in one, and the share of noise in the scale of their last layer."""


class Picture(NamedTuple):
    """A screen: the keys that lead to it from the Overview, and the words that show that it is there."""

    keys: Sequence[str]
    words: Sequence[str]


PICTURES = {
    "overview": Picture((), ("Running", "Queue")),
    "queue": Picture(("2",), ("Queue",)),
    "jobs": Picture(("3",), ("Jobs",)),
    "job": Picture(("3", "enter"), ("demo_",)),
    "scores": Picture(("4",), ("demo_arith",)),
    "sample": Picture(("3", "enter", "a", "enter"), ("grading",)),
    "logs": Picture(("5",), ("Logs",)),
    "procs": Picture(("6",), ("Procs",)),
    "data": Picture(("7",), ("demo_arith",)),
    "weights": Picture(("8",), ("rwkv7",)),
    "judge": Picture(("9",), ("Judge",)),
    "events": Picture(("E",), ("Events",)),
    "daemon": Picture((",",), ("Daemon",)),
    "help": Picture(("0",), ("Help",)),
}


def main(arguments: list[str]) -> None:
    """Make the pictures that were asked for."""
    folder = Path(arguments[0] if arguments else "docs/pictures")
    wanted = arguments[1:] or list(PICTURES)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rwp") as scratch, node(Path(scratch) / "h") as api:
        measure(api)
        asyncio.run(draw(api.path, folder, wanted))
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("No Chromium here: the pictures stay SVG (apt-get install chromium makes PNGs of them).")
        return
    for name in wanted:
        photograph(browser, folder / f"{name}.svg")
        (folder / f"{name}.svg").unlink()
        print(folder / f"{name}.png")


@contextmanager
def node(home: Path) -> Iterator[Client]:
    """A daemon on a home with three checkpoints and the built-in sets."""
    (home / "weights").mkdir(parents=True)
    (home / "data").mkdir()
    for name, noise in WORSE.items():
        make_worse(home / "weights" / f"{name}.pth", noise)
    own_rows(home)
    process = subprocess.Popen([sys.executable, "-m", "rwkv_daemon"], stderr=subprocess.DEVNULL, env={
        **os.environ, "RWKVCTL_HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "RWKVCTL_NUMERICS": "fp32",
        "RWKVCTL_IDLE_UNLOAD_S": "5",
    })  # fmt: skip
    api = Client(str(home / "run" / "daemon.sock"), tries=1)
    try:
        until(lambda: api.get("/v1/status"))
        yield api
        busy = ("running", "waiting")
        api.post("/v1/stop", {"jobs": [job["id"] for kind in busy for job in api.get("/v1/status").value[kind]]})
        until(lambda: not api.get("/v1/status").value["engines"])  # workers outlive a daemon on purpose
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def make_worse(path: Path, noise: float) -> None:
    """The built-in checkpoint with noise in the scale of its last normalisation."""
    tensors = torch.load(builtin_checkpoint_path(), weights_only=True)
    drawn = torch.randn(tensors["ln_out.weight"].shape, generator=torch.Generator().manual_seed(3))
    known = tensors["ln_out.weight"]
    tensors["ln_out.weight"] = (1 - noise) * known + noise * drawn.to(known.dtype)
    torch.save(tensors, path)


def own_rows(home: Path) -> None:
    """A set with subjects."""
    words = ["bab", "cec", "did", "fof", "gig", "hih", "lul", "mum"]
    lines = [
        f'{{"question": "{words[(n + n % 4) % 8]}", "choices": '
        f'{[words[(n + k) % 8] for k in range(4)]}, "answer": "{"ABCD"[n % 4]}", '
        f'"subject": "{("colours", "animals", "numbers")[n % 3]}"}}'.replace("'", '"')
        for n in range(60)
    ]
    rows = home / "quiz.jsonl"
    rows.write_text("\n".join(lines) + "\n", encoding="utf-8")
    prepare_own("own_quiz", rows, home / "data", replace=False)


def measure(api: Client) -> None:
    """Everything once; then work that goes on while the pictures are made, and a job that somebody holds."""
    sets = {"only_datasets": ["demo_arith", "demo_choice", "own_quiz"]}
    jobs = dispatch(api, **sets)
    until(lambda: all(state_of(api, job) in {"done", "failed"} for job in jobs) or None)
    held = dispatch(api, limit=50, seed=5, **sets)
    api.post("/v1/hold", {"jobs": held[-2:], "why": "wait for the new prompt"})
    dispatch(api, only_datasets=["demo_arith"], settings={"temperature": "1", "k": "64"})
    until(lambda: any(job.get("done") for job in api.get("/v1/status").value["running"]) or None)


def dispatch(api: Client, **selection: Any) -> list[str]:
    """Queue work; the jobs."""
    return list(api.post("/v1/dispatch", {"selection": selection}).value["jobs"])


def state_of(api: Client, job: str) -> str:
    return str(api.get(f"/v1/jobs/{job}").value["item"]["state"])


def until(look: Callable[[], object]) -> None:
    """Wait until a look finds something."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if look():
                return
        except RwkvctlError:
            pass
        if time.monotonic() > deadline:
            raise SystemExit("the node does not come to where a picture can be made of it")
        time.sleep(0.1)


async def draw(socket: str, folder: Path, wanted: Sequence[str]) -> None:
    """Lead the console to each screen and write what it shows."""
    app = Console(Path(socket), Options(environ={"TERM": "xterm-256color", "COLORTERM": "truecolor"}))
    async with app.run_test(size=SIZE) as pilot:
        await shown(app, "●")
        await asyncio.sleep(12.0)  # a minute's spark begins to say something
        for name in wanted:
            for key in ("1", *PICTURES[name].keys):
                await pilot.press(key)
                await asyncio.sleep(1.0)  # a screen that comes asks the daemon first
            await shown(app, *PICTURES[name].words)
            await asyncio.sleep(2.0)  # what a screen asks for comes after it is there
            (folder / f"{name}.svg").write_text(app.export_screenshot(title=f"rwkvctl · {name}"), encoding="utf-8")


async def shown(app: Console, *words: str) -> None:
    """Wait for words on the screen."""
    for _ in range(int(PATIENCE_S / 0.05)):
        lines = app.screen._compositor.render_strips()
        text = "\n".join("".join(segment.text for segment in line) for line in lines)
        if all(word in text for word in words):
            return
        await asyncio.sleep(0.05)
    raise SystemExit(f"no {words} in:\n{text}")


def photograph(browser: str, svg: Path) -> None:
    """A PNG beside an SVG."""
    box = re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', svg.read_text(encoding="utf-8"))
    assert box is not None
    width, height = (int(float(number)) + 1 for number in box.groups())
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--disable-background-networking", f"--user-data-dir={profile}", f"--window-size={width},{height}",
             f"--screenshot={svg.with_suffix('.png').absolute()}", svg.absolute().as_uri()],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
