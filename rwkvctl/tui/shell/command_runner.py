"""The `:` line: goes to a screen, or runs a verb and shows what it says."""

import asyncio
import time
from typing import Final

from textual.worker import Worker

from rwkvctl.cli.completion import candidates
from rwkvctl.cli.parser import UsageError
from rwkvctl.text.sanitize import safe_line
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.console_app import CommandLine, ConsoleApp
from rwkvctl.tui.logs.lines import SGR
from rwkvctl.tui.shell import verb_process
from rwkvctl.tui.shell.command_parser import Quit, Run, completed, understand
from rwkvctl.tui.shell.last_command import LastCommand
from rwkvctl.tui.shell.navigation import Location
from rwkvctl.tui.tabs import TABS

BRIEF_S: Final = 3.0
"""A verb that ends soon and says little is answered above the keys; any other has the output screen."""

COMPLETION_S: Final = 10.0
"""How long the daemon may take to name what there is. One can go on typing meanwhile."""


class Commander(CommandLine):
    """Reads lines, and holds the one command that runs."""

    def __init__(self, console: ConsoleApp) -> None:
        self.console = console
        self.last = LastCommand()
        self.lines: list[str] = []
        self._worker: Worker[None] | None = None

    def line(self, text: str) -> None:
        """Do what a line says. Raises ValueError or UsageError with a sentence if it cannot be understood."""
        console = self.console
        found = understand(text, set(TABS), read_only=console.options.read_only)
        if isinstance(found, Quit):
            console.exit()
        elif isinstance(found, Location):
            console.go(found.name, found.about)
        elif isinstance(found, Run):
            self.lines.append(found.line)
            self.stop()
            self._worker = console.run_worker(self._run(found), group="command", exclusive=True)

    def run(self, *words: str) -> None:
        """Run a verb with words that may come from elsewhere; what cannot be run is said."""
        try:
            self.line(as_typed(words))
        except (ValueError, UsageError) as error:
            self.console.say(str(error), "bad")

    def stop(self) -> bool:
        """End the command that runs; False if none does, or the last one is being ended already."""
        worker, self._worker = self._worker, None
        if worker is None or not worker.is_running:
            return False
        worker.cancel()
        return True

    async def _run(self, run: Run) -> None:
        """Run a verb; show it where it belongs once it is clear how much it says."""
        console, ran = self.console, self.last
        ran.line, ran.started_at, ran.ended_at, ran.exit_code = run.line, time.time(), 0.0, None
        ran.output.clear()
        size = console.size
        environ = verb_process.environment(
            console.options.environ, size.width - 2, size.height - 4, colour=console.look.name != "mono"
        )
        words = verb_process.command(run, console.options.flags)
        async with asyncio.TaskGroup() as group:
            shown = group.create_task(self._show_when_long())
            ran.exit_code = await verb_process.follow(words, environ, ran.output.feed)
            ran.ended_at = time.time()
            shown.cancel()
        self._say_end()

    async def _show_when_long(self) -> None:
        """Go to the output as soon as it says or takes more than a moment."""
        ran = self.last
        while ran.is_brief and time.time() < ran.started_at + BRIEF_S:
            await asyncio.sleep(0.05)
        self.console.go("output")

    def _say_end(self) -> None:
        """Show the output of a brief command above the keys."""
        console, ran = self.console, self.last
        if console.frame.active_view_name == "output":
            console.draw()
        elif not ran.is_brief:
            console.go("output")
        else:
            lines = [ran.output.line(number) for number in range(ran.output.first, ran.output.end)]
            texts = [safe_line(SGR.sub("", line.decode(errors="replace"))) for line in lines]
            console.frame.say(texts or [f"{ran.line}: exit {ran.exit_code}"], "bad" if ran.exit_code else "")

    def complete(self, begun: str) -> None:
        """Complete the word before the cursor, from the words a shell would offer; the daemon may be asked."""
        self.console.run_worker(self._complete(begun), group="complete", exclusive=True)

    async def _complete(self, begun: str) -> None:
        words = begun.split() + ([""] if not begun or begun[-1].isspace() else [])
        asked = words[1:] if words[0] == "rwkvctl" else words
        found = await asyncio.to_thread(candidates, asked, COMPLETION_S)
        if not self.console.frame.prompt.field.value.startswith(begun):
            return  # it is another line by now
        if len(words) == 1:
            found = sorted({*found, *(name for name in TABS if name.startswith(words[0]))})
        line, several = completed(begun, found)
        self.console.frame.prompt.fill(line + self.console.frame.prompt.field.value[len(begun) :])
        if several:
            self.console.say("  ".join(several[:40]), "dim", for_s=20.0)
