"""The console relies on private parts of Textual: a release that renames one of them fails here first."""

import ast
import inspect
import re
import sys
from pathlib import Path

import textual.driver
from rich.console import Console as RichConsole
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.geometry import Region
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input

CONSOLE = Path(__file__).resolve().parents[2] / "rwkvctl/tui"
APP = {"_batch_count", "_check_bindings", "_closed", "_display", "_driver", "_running", "_sync_available"}
OTHERS = {"_color_system", "_pruning", "_queue", "_scroll_update", "_skip", "_writer_thread"}
PUBLIC = {"_replace"}
"""Of named tuples: documented, whatever its name looks like."""


def test_the_app_and_its_updates() -> None:
    """What `app.py` and `terminal/frame_diff.py` use; RWKVCTL_TUI_DIFF=0 is the way round the latter."""
    assert {"strips", "region"} <= set(LayoutUpdate([], Region(0, 0, 1, 1)).__dict__)
    assert {"chops", "spans", "chop_ends"} <= set(ChopsUpdate([], [], []).__dict__)
    app: App[None] = App()
    assert not {name for name in {*APP, "post_display_hook", "_pruning"} if not hasattr(app, name)}
    assert inspect.signature(app._check_bindings).parameters.keys() == {"key", "priority"}
    assert inspect.signature(app._display).parameters.keys() == {"screen", "renderable"}
    assert RichConsole(color_system="truecolor", force_terminal=True)._color_system is not None


def test_the_terminals_writer() -> None:
    """`terminal/backpressure.py` counts what it has not taken yet."""
    assert WriterThread(sys.stderr)._queue.qsize() == 0
    assert "_writer_thread" in inspect.getsource(LinuxDriver)
    assert not hasattr(textual.driver.Driver, "_writer_thread")  # where no terminal is, there is none


def test_timers_and_widgets() -> None:
    """Textual still has what `widgets/timers.py` and `widgets/table.py` use."""
    assert "self._skip" in inspect.getsource(Timer)
    assert inspect.signature(Widget._scroll_update).parameters.keys() == {"self", "virtual_size"}


def test_what_our_classes_put_in_place_of_textuals() -> None:
    """The methods that `shell/prompt.py` and `terminal/browser_server.py` override keep their parameters."""
    assert inspect.signature(Input._on_paste).parameters.keys() == {"self", "event"}
    from textual_serve.server import Server  # with aiohttp behind it, which no other test of this process may want

    assert inspect.signature(Server._process_messages).parameters.keys() == {"self", "websocket", "app_service"}


def test_no_other_private_part_is_used() -> None:
    """Attributes with an underscore that no module of the console defines are Textual's, or Rich's."""
    used: set[str] = set()
    own: set[str] = set()
    for path in CONSOLE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            match node:
                case ast.Attribute(attr=name, ctx=ast.Load()):
                    used.add(name)
                case ast.Attribute(attr=name) | ast.AnnAssign(target=ast.Name(id=name)):
                    own.add(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    own.add(name)
    private = {name for name in used - own if re.match(r"_[a-z]", name)}
    assert private - APP - OTHERS - PUBLIC == set()
