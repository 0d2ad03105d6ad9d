"""Small Textual apps that `bench/console.py` measures: `python bench/console_apps.py minimal`."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.app import App, ComposeResult
from textual.widget import Widget
from textual.widgets import Static


class Minimal(App[None]):
    """One label, changed by every key: the cost of Textual itself."""

    pressed = 0

    def compose(self) -> ComposeResult:
        yield Static("READY minimal")

    def on_key(self) -> None:
        self.pressed += 1
        self.query_one(Static).update(f"pressed {self.pressed}")


def minimal() -> None:
    Minimal().run()


def table_app(rows: int, report: Path) -> None:
    """Show ten thousand rows on the real driver; write the CPU and bytes of repeated operations to the report."""
    from rwkvctl.tui.app import Console
    from rwkvctl.tui.options import Options
    from rwkvctl.tui.widgets.table import VTable
    from rwkvctl.tui.widgets.table_columns import Column

    def column(number: int) -> Column[list[str]]:
        return Column(f"COLUMN{number}", lambda row: row[number], 12)

    class Table(Console):
        """The console's own terminal driver, with one table in front."""

        def on_mount(self) -> None:
            columns = [column(number) for number in range(8)]
            self.rows = [[f"r{row}c{number}x{row * 7919 % rows}" for number in range(8)] for row in range(rows)]
            self.table: VTable[list[str]] = VTable(columns, lambda row: row[0], id="table")
            self.set_timer(1.0, lambda: self.run_worker(self.go_on()))

        def other(self, row: int, number: int) -> list[str]:
            return [*self.rows[row][:3], f"other{number}", *self.rows[row][4:]]

        async def go_on(self) -> None:
            alone(self, self.table)
            table, lines = self.table, list[str]()
            table.styles.height = 30
            table.show("READY table", self.rows)
            sent = counted(self)

            async def measured(name: str, times: int, act: Callable[[int], object]) -> None:
                await settle(self)
                sent[0], spent, slowest = 0, 0.0, 0.0
                for number in range(times):
                    start = time.process_time()
                    act(number)
                    await settle(self)
                    taken = time.process_time() - start
                    spent, slowest = spent + taken, max(slowest, taken)
                lines.append(f"{name}\t{1000 * spent / times:.2f}\t{1000 * slowest:.2f}\t{sent[0] / times:.0f}")

            await measured("nothing", 50, lambda number: None)
            await measured("one cell", 100, lambda n: table.put(5, self.other(5, n)))
            await measured("28 cells", 50, lambda n: [table.put(row, self.other(row, n)) for row in range(28)])
            await measured("cursor down", 25, lambda n: table.action_move(1))
            await measured("cursor down, scrolling", 50, lambda n: table.action_move(1))
            await measured("page down", 50, lambda n: table.action_page(1))
            await measured("sort", 10, lambda n: table.sort(n % 4 + 1))
            table.listing.searched()  # as the prompt does when it opens
            await measured("filter, first letter", 1, lambda n: table.filter("9"))
            await measured("filter, next letter", 10, lambda n: table.filter(f"9{n}"))
            await measured("same rows again", 20, lambda n: table.show("READY table", self.rows))
            report.write_text("\n".join(lines) + "\n", encoding="utf-8")
            self.exit()

    Table(Path("/nowhere"), Options(environ={"TERM": "xterm-256color", "COLORTERM": "truecolor"})).run()


def counted(app: Any) -> list[int]:
    """Count the characters that the app sends to the terminal from now on; the sum is the list's one item."""
    sent, write = [0], app._driver.write

    def count(text: str) -> None:
        sent[0] += len(text)
        write(text)

    app._driver.write = count
    return sent


def alone(app: Any, widget: Widget) -> None:
    """Put a widget in front of everything else."""
    app.frame.mount(widget, before=0)
    app.frame.query_one("#body").display = False
    if widget.can_focus:
        widget.focus()


async def settle(app: App[None]) -> None:
    """Wait until everything has been painted."""
    import asyncio

    for _ in range(3):
        done = asyncio.Event()
        app.call_after_refresh(done.set)
        await done.wait()


def log_app(rate: int, report: Path) -> None:
    """Show a followed log with `rate` lines a second for some seconds; then pause it and count the lines."""
    from rwkvctl.tui.app import Console
    from rwkvctl.tui.logs.view import LogView
    from rwkvctl.tui.options import Options

    class Log(Console):
        """The console's own terminal driver, with one log in front."""

        def on_mount(self) -> None:
            self.log_view = LogView(id="log", name_of="READY log")
            self.fed = 0
            self.set_timer(1.0, self.begin)

        def begin(self) -> None:
            alone(self, self.log_view)
            self.started, self.spent = time.monotonic(), time.process_time()
            self.set_interval(0.1, self.feed_some)
            self.set_timer(8.0, self.stop_feeding)

        def feed_some(self) -> None:
            due = int((time.monotonic() - self.started) * rate) - self.fed
            self.log_view.feed("".join(line(self.fed + number) for number in range(due)))
            self.fed += due
            self.log_view.follow = (time.monotonic() - self.started) % 4 < 3  # paused one second of four

        def stop_feeding(self) -> None:
            wall, cpu = time.monotonic() - self.started, time.process_time() - self.spent
            kept = self.log_view.store.end
            report.write_text(f"{cpu / wall}\t{self.fed}\t{kept}\n", encoding="utf-8")
            self.exit()

    Log(Path("/nowhere"), Options(environ={"TERM": "xterm-256color", "COLORTERM": "truecolor"})).run()


def line(number: int) -> str:
    """Return a log line of about 109 bytes."""
    end = "ok=0" if number % 97 == 0 else "ok=1"
    return (
        f"02:58:{number % 60:02d}.114 I worker batch=512 active=512 done=+{number:09d} tok/s=546120 "
        f"state_mem=21.4GiB x {end:>10}\n"
    )


def slow_app(report: Path) -> None:
    """Show thirty lines that change ten times a second, the first with the time, with back-pressure."""
    from rwkvctl.tui.app import Console
    from rwkvctl.tui.options import Options
    from rwkvctl.tui.widgets.label_lines import Lines

    class Slow(Console):
        """The console's own terminal driver, repainting more than a slow line takes."""

        def on_mount(self) -> None:
            import random

            self.lines = Lines(id="many")
            self.lines.styles.height = 34
            self.random, self.role = random.Random(7), ""
            self.set_timer(1.0, self.begin)

        def begin(self) -> None:
            alone(self, self.lines)
            self.set_interval(0.1, self.change)

        def change(self) -> None:
            if not self.frame_throttle.held:
                digits = [f"{self.random.getrandbits(4 * 110):0110x}" for _ in range(33)]
                self.role = "" if self.role else "bold"  # every character of the time is sent again
                self.lines.show([[(f"T={time.time():.3f}=", self.role)], *[[(text, "")] for text in digits]])

    Slow(Path("/nowhere"), Options(environ={"TERM": "xterm-256color", "COLORTERM": "truecolor"})).run()


if __name__ == "__main__" and len(sys.argv) > 1:
    kind, *rest = sys.argv[1:]
    if kind == "minimal":
        minimal()
    elif kind == "table":
        table_app(int(rest[0]), Path(rest[1]))
    elif kind == "log":
        log_app(int(rest[0]), Path(rest[1]))
    else:
        slow_app(Path(rest[0]))
