"""Progress lines on standard error: redrawn in place on a terminal, now and then a line elsewhere."""

import time
from collections.abc import Iterable
from typing import Final

from rwkvctl.cli.client import Record
from rwkvctl.cli.render import MARKS, Terminal, paint, share
from rwkvctl.cli.tables.core_tables import idle, score_metric, score_text, why
from rwkvctl.protocol.states import ACTIVE, TERMINAL
from rwkvctl.text.quantities import bar, duration
from rwkvctl.text.sanitize import Styled, cell_width, fit, safe_line, styled

REDRAW_S: Final = 0.1
EVERY_S: Final = 30.0
REST_AND_END: Final = Styled("\x1b[K\n")
STEP: Final = 0.1
BESIDE: Final = 57
"""Cells that id, state, bar, counts and score take beside a job's name."""

ORDER: Final = {"stopping": 0, "judging": 1, "grading": 1, "generating": 2, "starting": 3, "held": 4, "queued": 5}


class Progress:
    """Progress lines on standard error, one per job. `draw` may be called as often as there is news."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal, self.drawn, self.last = terminal, 0, 0.0
        self.told: dict[str, tuple[str, int, float]] = {}

    def draw(self, jobs: Iterable[Record]) -> None:
        """Show the progress of the jobs: redrawn in place on a terminal, else a line per job that has news."""
        known = [job for job in jobs if job]
        if not self.terminal.err_is_tty:
            for job in known:
                self._tell(job)
        elif time.monotonic() - self.last >= REDRAW_S or all(job["state"] in TERMINAL for job in known):
            self.last = time.monotonic()
            self._redraw(known)

    def say(self, text: str) -> None:
        """Print a warning above the progress lines."""
        self._clear()
        self.terminal.note(text, "warn")

    def close(self) -> None:
        """Leave the lines as they are; what follows goes below them."""
        self.drawn = 0

    def _clear(self) -> None:
        if self.drawn:
            self.terminal.draw(Styled(f"\x1b[{self.drawn}F\x1b[J"))
            self.drawn = 0

    def _redraw(self, jobs: list[Record]) -> None:
        self._clear()
        room = max(1, self.terminal.height - 2)
        shown = jobs if len(jobs) <= room else sorted(jobs, key=lambda job: ORDER.get(job["state"], 9))[: room - 1]
        lines = [self._line(job) for job in shown]
        if len(shown) < len(jobs):
            ended = sum(job["state"] in TERMINAL for job in jobs)
            lines.append(styled(f"… {len(jobs) - len(shown)} more jobs; {ended} of {len(jobs)} have finished"))
        self.terminal.draw(styled(*(part for line in lines for part in (line, REST_AND_END))))
        self.drawn = len(lines)

    def _line(self, job: Record) -> Styled:
        mark, role = MARKS.get(job["state"], ("?", "warn"))
        width = self.terminal.width - 1
        room = max(20, width - BESIDE)
        name = short_name(job, room)
        head = f"{job['id']:>4} {name}{' ' * max(0, room - cell_width(name))} "
        tail = fit(safe_line(f"{mark} {tail_of(job)}"), width - cell_width(head))
        return styled(head, paint(tail, role, self.terminal.err_colour))

    def _tell(self, job: Record) -> None:
        """One line for each new state, each 10 %, and at least every 30 s while it runs."""
        state, step = job["state"], int(done_share(job) / STEP)
        last = self.told.get(job["id"])
        now = time.monotonic()
        quiet = last and last[:2] == (state, step) and (state not in ACTIVE or now - last[2] < EVERY_S)
        if quiet or (last and state in ACTIVE and last[0] in ACTIVE and last[1] == step and now - last[2] < EVERY_S):
            return
        self.told[job["id"]] = (state, step, now)
        text = safe_line(f"{job['id']} {job['model']} {job['benchmark']} {job['kind']}")
        self.terminal.note(f"{text}: {tail_of(job)}")


def short_name(job: Record, room: int) -> str:
    """Model, benchmark and kind; where that is too long without the kind, then with the model cut."""
    model, benchmark = safe_line(job["model"]), safe_line(job["benchmark"])
    whole = safe_line(f"{model} {benchmark} {job['kind']}")
    if cell_width(whole) <= room:
        return whole
    return fit(f"{fit(model, max(8, room - 1 - cell_width(benchmark)), 'middle')} {benchmark}", room)


def done_share(job: Record) -> float:
    """Return the completed fraction of a job, from 0 to 1."""
    return 1.0 if job["state"] == "done" else share(job.get("done", 0), job.get("total", 0))


def tail_of(job: Record) -> str:
    """Return state, bar, counts, time left, running score and rate of a job; or why it does not run."""
    part = done_share(job)
    if job["state"] in {"queued", "held", "failed", "stopped"}:
        return safe_line(f"{job['state']} {why(job)}".rstrip())
    going = job["state"] != "done"
    left = f" {duration(job['eta_s'])} left" if job.get("eta_s") is not None and going else ""
    left = f" {idle(job)}" if going and idle(job) else left
    rate = f" {job['samples_per_s']:.3g}/s" if job.get("samples_per_s") and going else ""
    if going and not job.get("total"):  # of an outside harness, which alone knows how many rows there are
        return f"{job['state']:<10} {safe_line(job.get('detail', ''))}".rstrip()
    counts = f"{job.get('done', 0)}/{job.get('total', 0)}"
    score = f" {score_text(job)}" if going or score_metric(job) else ""  # of a job that is over it comes a moment later
    return f"{job['state']:<10} {bar(part, 8)} {100 * part:3.0f}% {counts}{left}{score}{rate}"
