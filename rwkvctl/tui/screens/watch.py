"""Watch: the watched folders, the checkpoints of the one under the cursor, and their scores by checkpoint."""

import contextlib
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.cli.client import request_id
from rwkvctl.protocol.errors import RefusedError, RwkvctlError, UnreachableError
from rwkvctl.protocol.replies import SuitesReply
from rwkvctl.protocol.requests import SuitesRequest
from rwkvctl.protocol.training.baselines import BaselinePin, BaselinesReply, BaselinesRequest
from rwkvctl.protocol.training.watches import (
    WatchChange,
    WatchedView,
    WatchesReply,
    WatchesRequest,
    WatchReply,
    WatchView,
)
from rwkvctl.text.quantities import several
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.daemon.client import STOP_S
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.scores.source import ScoreSource
from rwkvctl.tui.shell.polling_screen import PollingScreen
from rwkvctl.tui.watches import score_rows, watch_rows
from rwkvctl.tui.watches.checkpoint_source import LONG_AGO, CheckpointSource
from rwkvctl.tui.watches.score_rows import ScoreRow
from rwkvctl.tui.watches.watch_rows import CheckpointAction
from rwkvctl.tui.widgets.chart import Chart
from rwkvctl.tui.widgets.reader import Reading
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import LOADING, VTable

NO_FOLDER: Final = "no folder selected"
NO_WATCHES: Final = "no folder is watched; see `:help watch add`"
NO_CHECKPOINTS: Final = "no checkpoint is there yet"
NO_SCORES: Final = "no checkpoint has a score yet"
HELD_BACK: Final = "not shown, since the suite holds rows back: enter on a checkpoint opens its feedback"
CHOOSE_FIRST: Final = "This key acts on checkpoints: press enter on a folder, then choose among them."
AGAIN_S: Final = 30.0
"""After so long scores that could not be read are tried again."""


class Watch(PollingScreen):
    """The folders, below them checkpoints, below these scores. `about` is the folder under the cursor: `w1`."""

    NAME = "watch"
    FIRST_PANEL = "watches"
    DEFAULT_CSS = """
    Watch #watches { height: 1fr; min-height: 4; }
    Watch #checkpoints { height: 2fr; min-height: 5; }
    Watch #reasons { height: 2; }
    Watch #scores { height: 1fr; min-height: 4; }
    Watch #trend { height: 8; }
    Watch.-dense #trend { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "change('retry')", "Retry…", key_display="R"),
        Binding("s", "change('skip')", "Skip…"),
        Binding("b", "pin", "Pin…"),
        Binding("p", "pause", "Pause"),
    ]

    items: tuple[WatchView, ...] = ()
    baselines: dict[str, str]
    """The pinned baseline of each pattern."""
    held_back: frozenset[str] | None = None
    """Suites that hold rows back; None until they are read."""
    is_visit_new = False
    """Whether what is read once a visit is still to be read."""
    unread = ""
    """Why the scores could not be read."""
    unread_at = LONG_AGO
    refusal = ""
    """Why the daemon lists no watches."""
    go_to = ""
    """The folder to move the cursor to, once the list has been read since it was asked for."""
    is_read = False
    shown = ""
    """The folder whose checkpoints are shown: keys act on those that one sees."""
    drawn: object = None

    def body(self) -> Iterable[Widget]:
        self.baselines, self.rows = {}, list[ScoreRow]()
        self.source = CheckpointSource(self.console_app.link)
        self.score_source = ScoreSource(self.console_app.link, self.console_app.state.scores)
        yield VTable[WatchView](watch_rows.WATCHES, lambda row: row.watch, id="watches", empty=LOADING)
        yield VTable[WatchedView](watch_rows.CHECKPOINTS, lambda row: str(row.id), id="checkpoints", empty=LOADING)
        yield Reading(id="reasons", wraps=True)
        yield VTable[ScoreRow](score_rows.SCORES, lambda row: " ".join(row.key), id="scores", empty=LOADING)
        yield Chart(id="trend")

    @property
    def watches(self) -> "VTable[Any]":
        return self.query_one("#watches", VTable)

    @property
    def checkpoints(self) -> "VTable[Any]":
        return self.query_one("#checkpoints", VTable)

    @property
    def scores(self) -> "VTable[Any]":
        return self.query_one("#scores", VTable)

    # -- reading ---------------------------------------------------------------------------------------------------

    def arrive(self, about: str) -> None:
        """Show the folders, with the cursor on the named one."""
        place = self.watches.listing.place_of(about) if about else -1
        if place >= 0:
            self.watches.move_to(place)
        self.go_to, self.is_read, self.is_visit_new = about if place < 0 else "", False, True
        super().arrive(about)

    def action_ask_again(self) -> None:
        """Read again also what is taken to be what it was."""
        self.source.expire()
        self.unread_at = LONG_AGO
        super().action_ask_again()

    def leave(self) -> None:
        """Stop reading while another screen is in front."""
        super().leave()
        for group in ("look", "scores"):
            self.workers.cancel_group(self, group)

    async def fetch(self) -> None:
        link, asked_for = self.console_app.link, self.go_to
        try:
            self.items = (await link.ask(WatchesRequest(), WatchesReply)).items
        except RefusedError as error:
            self.refusal = str(error)
            raise
        self.refusal, self.is_read = "", asked_for == self.go_to
        await self._read(asked_for or self.watches.chosen)
        if self._are_scores_due:
            self.run_worker(self._read_scores, group="scores")
        self.baselines = {pin.pattern: pin.model for pin in (await link.ask(BaselinesRequest(), BaselinesReply)).pins}
        if self.is_visit_new:
            suites = (await link.ask(SuitesRequest(), SuitesReply)).items
            self.held_back = frozenset(suite.name for suite in suites if suite.hold_back)
            self.is_visit_new = False

    async def _read(self, watch: str) -> None:
        """Read the checkpoints of a folder. Raises RwkvctlError."""
        if (row := self._watch(watch)) is not None:
            await self.source.read(row)

    async def _look(self, watch: str) -> None:
        """Read the folder to which the cursor has moved."""
        with contextlib.suppress(RwkvctlError):  # the next poll reports the error
            await self._read(watch)
            self.draw(self.console_app.state)

    @property
    def _are_scores_due(self) -> bool:
        """Whether the scores are to be read: not all are known, they are not being read, and have not failed lately."""
        if self.console_app.state.scores.complete or time.monotonic() - self.unread_at < AGAIN_S:
            return False
        return not any(one.group == "scores" and one.node is self and one.is_running for one in self.workers)

    async def _read_scores(self) -> None:
        """Read all scores, of which the state then keeps the newest; an error is shown in their place."""
        try:
            await self.score_source.read()
            self.unread = ""
        except UnreachableError:
            return  # the top line says it, and the next poll begins again
        except RwkvctlError as error:
            self.unread, self.unread_at = f"the scores cannot be read: {error}", time.monotonic()
        self.draw(self.console_app.state)

    def on_vtable_moved(self, message: VTable.Moved) -> None:
        """Show what belongs to the row under the cursor, and read the checkpoints of a folder."""
        message.stop()
        if message.table is self.watches:
            if not self.go_to:
                self.amend_place(message.key)
            self._show_chosen()
            if message.key:
                look: Any = partial(self._look, message.key)
                self.run_worker(look, group="look", exclusive=True)
        elif message.table is self.checkpoints:
            self._show_checkpoint()
        else:
            self._show_trend()

    # -- drawing ---------------------------------------------------------------------------------------------------

    def headline(self, state: ConsoleState) -> Pieces:
        return [(" Watch", "title"), (f"   {watch_rows.tally(self.items) if self.items else ''}", "")]

    def command(self) -> str:
        row = self._checkpoint() if self.panel is self.checkpoints else None
        if row is not None:
            return as_typed(["rwkvctl", "feedback", self.shown, row.model or row.name])
        return as_typed(["rwkvctl", "watch", *(["show", self.watches.chosen] if self.watches.chosen else [])])

    def draw(self, state: ConsoleState) -> None:
        self.watches.empty = self.refusal or (NO_WATCHES if self.known else LOADING)
        tally = watch_rows.tally(self.items) if self.has_class("-dense") and self.items else ""
        self.watches.show(
            f"Watched: {tally}" if tally else "Watched folders", list(self.items), stale=bool(state.problem)
        )
        if self.go_to and self.is_read:
            self._go_to()
        self._show_chosen()

    def _go_to(self) -> None:
        """Move the cursor to the folder that was asked for; a filter that hides it is cleared."""
        watch, self.go_to = self.go_to, ""
        self.amend_place(watch if any(one.watch == watch for one in self.items) else self.watches.chosen)
        if all(one.watch != watch for one in self.items):
            self.console_app.say(f"There is no watch {watch}.", "warn")
            return
        if self.watches.listing.place_of(watch) < 0:
            self.watches.filter("")
        self.watches.move_to(self.watches.listing.place_of(watch))

    def _show_chosen(self) -> None:
        """Show the checkpoints of the folder under the cursor, and their scores; nothing is marked or narrowed in those
        of another one."""
        row, table = self._watch(self.watches.chosen), self.checkpoints
        if self.watches.chosen != self.shown:
            self.shown = self.watches.chosen
            for one in (table, self.scores):
                one.filter("")
                one.move_to(0)
        known = self.source.known.get(self.shown)
        items = known.items if known else ()
        table.empty = self._why_nothing(row) or (NO_CHECKPOINTS if known else LOADING)
        title = watch_rows.title_of(row, len(items), self._baseline_of(row)) if row and known else "Checkpoints"
        table.show(title, list(items), stale=bool(self.console_app.state.problem))
        self._show_scores(row, items if known else None)
        self._show_checkpoint()

    def _show_scores(self, row: WatchView | None, items: Sequence[WatchedView] | None) -> None:
        """Find the scores of the checkpoints again if one of both is not what it was."""
        book = self.console_app.state.scores
        holds = row is not None and self.held_back is not None and row.selection.suite in self.held_back
        now = (self.shown, items, book.revision, holds, self.held_back is None)
        if now != self.drawn:
            self.drawn = now
            self.rows = [] if holds or self.held_back is None else score_rows.rows_of(items or (), book.models)
        is_known = book.complete and items is not None and self.held_back is not None
        nothing = self._why_nothing(row) or (HELD_BACK if holds else NO_SCORES if is_known else self.unread)
        self.scores.empty = nothing or LOADING

    def _why_nothing(self, row: WatchView | None) -> str:
        """Return why there is nothing of a folder to show; empty if there is one, or none is known yet."""
        return NO_FOLDER if row is None and (self.known or self.refusal) else ""

    def _show_checkpoint(self) -> None:
        """Show the reasons in full, and the scores with those of the checkpoint under the cursor."""
        state, row, one = self.console_app.state, self._watch(self.shown), self._checkpoint()
        stale = bool(state.problem)
        self.query_one("#reasons", Reading).show(watch_rows.about(row, one) if row else [], stale=stale)
        self.rows = score_rows.with_checkpoint(self.rows, one.model if one else "", state.scores.models)
        loading = "" if state.scores.complete or self.unread else f" · loading scores… {state.scores.count:,}"
        self.scores.show(f"Scores by checkpoint{loading}", self.rows, stale=stale)
        self._show_trend()

    def _show_trend(self) -> None:
        table, stale = self.scores, bool(self.console_app.state.problem)
        if table.chosen:
            shown = table.listing.row(table.cursor).curve
            self.query_one(Chart).show([(shown.title, "title")], shown.points, shown.scale, stale=stale)
        else:
            self.query_one(Chart).show([("no scores to draw", "title")], [], (0.0, 1.0), stale=stale)

    def _watch(self, name: str) -> WatchView | None:
        return next((one for one in self.items if one.watch == name), None)

    def _checkpoint(self) -> WatchedView | None:
        """Return the checkpoint under the cursor."""
        table = self.checkpoints
        return table.listing.row(table.cursor) if table.chosen else None

    def _baseline_of(self, row: WatchView) -> str:
        return self.baselines.get(watch_rows.pattern_of(row), "")

    # -- opening ---------------------------------------------------------------------------------------------------

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Go from a folder to its checkpoints, from a checkpoint to its feedback, from a score to the matrix."""
        message.stop()
        if message.table is self.watches:
            if self.has_class("-zoomed"):
                self.action_zoom()
            self.checkpoints.focus(scroll_visible=False)
        elif message.table is self.scores:
            self.console_app.go("scores")
        elif (row := self._checkpoint()) is not None:
            self.console_app.commander.run("feedback", self.shown, row.model or row.name)

    def action_back(self) -> None:
        """Go from the lower lists back to the folders, else back as on every screen."""
        if self.panel in {self.checkpoints, self.scores} and not self.narrowed:
            self.watches.focus(scroll_visible=False)
        else:
            super().action_back()

    # -- acting ----------------------------------------------------------------------------------------------------

    def _chosen_checkpoints(self) -> list[WatchedView]:
        """Return the checkpoints that a key acts on; if there are none, or a file has other content by now, tell the
        operator."""
        if self.panel is not self.checkpoints:
            self.console_app.say(CHOOSE_FIRST, "warn")
            return []
        known, chosen = self.source.known.get(self.shown), set(self.targets_in(self.checkpoints))
        rows = [one for one in known.items if str(one.id) in chosen] if known else []
        older = watch_rows.older_contents(known.items if known else ())
        if replaced := [one.name for one in rows if one.id in older]:
            self.console_app.say(f"{replaced[0]} has other content by now: choose its newest row.", "warn")
            return []
        return rows

    def action_change(self, action: CheckpointAction) -> None:
        """Ask whether to measure the chosen checkpoints after all, or to leave them out."""
        names = [one.name for one in self._chosen_checkpoints()]
        if names and self.console_app.may_write():
            lines = watch_rows.question(self.shown, action, names)
            change = WatchChange(watch=self.shown, action=action, checkpoints=tuple(names), request_id=request_id())
            self._begin(lines, [change])

    def action_pin(self) -> None:
        """Ask whether to compare the checkpoints of the folder with the one under the cursor."""
        row, one = self._watch(self.shown), self._checkpoint()
        if self.panel is not self.checkpoints or row is None or one is None:
            self.console_app.say(CHOOSE_FIRST if row else self.watches.why_no_row, "warn")
        elif not self.console_app.state.scores.complete:
            self.console_app.say(self.unread or "The scores are still loading: try again in a moment.", "warn")
        elif not self.console_app.state.scores.models.get(one.model):
            self.console_app.say(f"{one.name} has no score with which another could be compared.", "warn")
        elif self.console_app.may_write():
            pattern = watch_rows.pattern_of(row)
            pin = BaselinePin(pattern=pattern, model=one.model, request_id=request_id())
            lines = watch_rows.pin_question(row, one, self._baseline_of(row))
            self._begin(lines, [pin])

    def action_pause(self) -> None:
        """Pause the chosen folders that are watched, and resume the others; of several it asks first. From another list
        it pauses the folder that this one belongs to."""
        chosen = set(self.targets_in(self.watches)) if self.panel is self.watches else {self.shown}
        rows = [row for row in self.items if row.watch in chosen]
        if rows and self.console_app.may_write():
            actions: list[Any] = ["resume" if row.state == "paused" else "pause" for row in rows]
            said = ", ".join(f"{action} {row.watch}" for row, action in zip(rows, actions, strict=True))
            lines: list[Pieces] = [[(f"{said[:1].upper()}{said[1:]}?", "title")]] if len(rows) > 1 else []
            changes = [
                WatchChange(watch=row.watch, action=action, request_id=request_id())
                for row, action in zip(rows, actions, strict=True)
            ]
            self._begin(lines, changes)

    def _begin(self, lines: "Sequence[Pieces]", changes: "Sequence[WatchChange | BaselinePin]") -> None:
        work: Any = partial(self._ask_and_change, lines, changes)
        self.run_worker(work, group="change")

    async def _ask_and_change(self, lines: "Sequence[Pieces]", changes: "Sequence[WatchChange | BaselinePin]") -> None:
        """Make changes one after the other, after a question if it has lines, and report what became of each."""
        from rwkvctl.tui.shell.dialogs import Question  # dialogs are not part of the first frame

        console = self.console_app
        if lines and not (await console.push_screen_wait(Question(list(lines))) and console.may_write()):
            return
        said, role = list[str](), "ok"
        for change in changes:
            try:
                said.append(await self._change(change))
            except RwkvctlError as error:
                said.append(str(error))
                role = "bad"
        console.say("; ".join(said), role, for_s=15.0)
        self.action_ask_again()

    async def _change(self, change: WatchChange | BaselinePin) -> str:
        """Make one change, and return what became of it. Raises RwkvctlError."""
        console = self.console_app
        if isinstance(change, BaselinePin):
            console.did("baseline", "pin", change.model, "--for", change.pattern)
            await console.link.ask(change, BaselinesReply, STOP_S)
            return f"{change.pattern}: compared with {change.model}"
        console.did("watch", change.action, change.watch, *change.checkpoints)
        row = (await console.link.ask(change, WatchReply, STOP_S)).watch
        if not change.checkpoints:
            return f"{row.watch} {row.name}: {row.state}"
        many = len(change.checkpoints) > 1
        what = several(len(change.checkpoints), "checkpoint") if many else change.checkpoints[0]
        return f"{what} {'are' if many else 'is'} {'tried again' if change.action == 'retry' else 'left out'}"


SCREEN = Watch
