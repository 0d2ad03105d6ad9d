"""The console's app: finds the screens, runs the feed, draws at most five times a second, and carries out actions."""

import importlib
import pkgutil
from pathlib import Path
from typing import Any, ClassVar, Final

from textual.app import App
from textual.binding import Binding, BindingType
from textual.theme import Theme

from rwkvctl.client import request_id
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.messages import ChangedReply, StopRequest
from rwkvctl.remote import Remote
from rwkvctl.safe import safe_line
from rwkvctl.tui import screens
from rwkvctl.tui.base import ConsoleScreen
from rwkvctl.tui.dialogs import Notice, Question
from rwkvctl.tui.dispatching import DispatchForm
from rwkvctl.tui.feed import feed
from rwkvctl.tui.link import STOP_S, Link
from rwkvctl.tui.palette import Verbs
from rwkvctl.tui.state import ConsoleState
from rwkvctl.tui.widgets import Pieces
from rwkvctl.verbs import Verb

FRAME_S: Final = 0.2
THEME: Final = Theme(
    name="rwkvctl", primary="#56b4e9", secondary="#9fb3c8", accent="#f0e442", success="#2fb98a", warning="#e69f00",
    error="#e8743b", foreground="#d8dee4", background="#0b0f14", surface="#0b0f14", panel="#16202b", dark=True,
)  # fmt: skip


def discover() -> list[type[ConsoleScreen]]:
    """Every screen, in the order of their keys. A file without a proper SCREEN is an error that names it."""
    found: list[type[ConsoleScreen]] = []
    for info in pkgutil.iter_modules(screens.__path__):
        screen = getattr(importlib.import_module(f"{screens.__name__}.{info.name}"), "SCREEN", None)
        if not (isinstance(screen, type) and issubclass(screen, ConsoleScreen)):
            raise TypeError(f"rwkvctl/tui/screens/{info.name}.py defines no SCREEN")
        found.append(screen)
    return sorted(found, key=lambda screen: screen.KEY)


class Console(App[None]):
    """The operator's console."""

    TITLE = "rwkvctl"
    COMMANDS = App.COMMANDS | {Verbs}
    CSS = "ConsoleScreen { background: #0b0f14; } Footer { background: #0b0f14; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "keys", "Help", key_display="?"),
        Binding("Q", "quit", "Quit", key_display="Q"),
        Binding("ctrl+q", "quit", "Quit", show=False),
        Binding("ctrl+p", "command_palette", "Palette", show=False, key_display="^p"),
    ]

    def __init__(self, socket: Path | Remote) -> None:
        super().__init__()
        self.link, self.state = Link(socket), ConsoleState()
        self.animation_level = "none"
        self.drawn = -1

    async def on_mount(self) -> None:
        self.register_theme(THEME)
        self.theme = THEME.name
        for screen in discover():
            self.install_screen(screen(), screen.NAME)
            self.bind(screen.KEY, f"show('{screen.NAME}')", description=screen.TITLE)
        await self.push_screen(discover()[0].NAME)
        self.run_worker(feed(self.link, self.state, self.draw_if_new), group="feed")
        self.set_interval(FRAME_S, self.draw_if_new)

    async def on_unmount(self) -> None:
        await self.link.close()

    def draw_if_new(self) -> None:
        """Draw the screen in front, if anything changed."""
        if self.state.revision != self.drawn and isinstance(self.screen, ConsoleScreen):
            self.drawn = self.state.revision
            self.screen.paint(self.state)

    async def action_show(self, name: str) -> None:
        """Go to a screen."""
        if isinstance(self.screen, ConsoleScreen) and name != self.screen.NAME:
            await self.switch_screen(name)
            self.drawn = -1

    def open_job(self, job_id: str) -> None:
        """Go to a job's screen."""
        screen = self.get_screen("job")
        screen.job_id = job_id  # type: ignore[attr-defined]
        self.run_worker(self.action_show("job"), exit_on_error=True)

    def tell(self, text: str, *, bad: bool = True) -> None:
        """A sentence that stays for some seconds."""
        self.notify(safe_line(text), severity="error" if bad else "information", markup=False)

    def ask_stop(self, job_id: str) -> None:
        """Ask whether to stop a job, and do it."""
        job = self.state.jobs.get(job_id)
        name = f"{job.model} × {job.benchmark} {job.kind}, {job.done}/{job.total} samples" if job else ""
        lines: list[Pieces] = [
            [(f"Stop {job_id}?", "title")],
            [(name, "")],
            [("What is done is kept; resume goes on from there.", "dim")],
            [(f"rwkvctl stop {job_id}", "info")],
        ]
        self.run_worker(self._stop(job_id, lines), group="stop")

    async def _stop(self, job_id: str, lines: list[Pieces]) -> None:
        if self.state.problem:
            self.tell("The daemon does not answer; nothing can be stopped now.")
            return
        if not await self.push_screen_wait(Question(lines)):
            return
        request = StopRequest(jobs=(job_id,), request_id=request_id())
        try:
            reply = await self.link.ask(request, ChangedReply, STOP_S)
        except RwkvctlError as error:
            self.tell(str(error))
            return
        for item in reply.items:
            self.tell(item.error or f"{item.job} {item.state}", bad=bool(item.error))

    def action_dispatch(self) -> None:
        """Open the dispatch form."""
        self.run_worker(self._dispatch(), group="dispatch")

    async def _dispatch(self) -> None:
        said = await self.push_screen_wait(DispatchForm())
        if said:
            self.tell(said, bad=False)

    def action_keys(self) -> None:
        """Show the keys of the screen in front, from its bindings."""
        self.push_screen(Notice(key_lines(self.screen.active_bindings)))

    async def run_verb(self, verb: Verb) -> None:
        """Do what a verb says, as far as the console can; else show how it is called in a shell."""
        if verb.words == "dispatch":
            self.action_dispatch()
        elif verb.words == "status":
            await self.action_show("overview")
        elif verb.words == "help":
            self.action_keys()
        else:
            examples: list[Pieces] = [[(f"  {line}", "info")] for line in verb.examples]
            self.push_screen(Notice([[(f"rwkvctl {verb.words}", "title")], [(verb.summary, "")], *examples]))


def key_lines(active: dict[str, Any]) -> list[Pieces]:
    """Each key and what it does, once for each action."""
    lines: list[Pieces] = [[("Keys of this screen", "title")]]
    seen: set[str] = set()
    for key, bound in active.items():
        binding = bound.binding
        if binding.description and binding.action not in seen:
            seen.add(binding.action)
            lines.append([(f" {binding.key_display or key:<12}", "bold"), (binding.description, "")])
    return lines
