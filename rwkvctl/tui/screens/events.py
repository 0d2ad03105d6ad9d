"""Events: what happened on the node, newest first and live, back to the beginning; and the audit trail of changes."""

import time
from collections.abc import Iterable
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.protocol.audit import AuditReply, AuditRequest, AuditView
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.protocol.requests import EventsRequest
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.daemon.time_input import moment
from rwkvctl.tui.events import audit_rows, event_rows
from rwkvctl.tui.events.event_rows import SEVERITIES, SUBJECTS, EventBook, EventRow
from rwkvctl.tui.logs.feed import AGAIN_S, EventFeed
from rwkvctl.tui.logs.view import FLUSH_S
from rwkvctl.tui.screen import ConsoleScreen
from rwkvctl.tui.widgets.reader import Reading
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import LOADING, VTable
from rwkvctl.tui.widgets.table_columns import RowT

PAGE: Final = 1000
AHEAD: Final = 100
"""So many rows before the last one the page behind it is fetched."""


class Events(ConsoleScreen):
    """Two lists: what happened, and with `a` the audit trail. The past is fetched as the cursor nears its end."""

    NAME = "events"
    FIRST_PANEL = "events"
    DEFAULT_CSS = """
    Events #events, Events #audit { height: 1fr; min-height: 3; }
    Events #whole { height: 5; }
    Events.-dense #whole { height: 4; }
    Events #audit { display: none; }
    Events.-audit #audit { display: block; }
    Events.-audit #events { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "severity", "Severity"),
        Binding("f", "subject", "Subject"),
        Binding("a", "audit", "Audit"),
    ]

    def body(self) -> Iterable[Widget]:
        self.book = EventBook()
        self.feed: EventFeed | None = None
        self.audits: list[AuditView] = []
        self.audit_next, self.audit_answered, self.fetching, self.wanted_at, self.not_before = 0, False, False, "", 0.0
        self.first_page = False
        yield VTable[EventRow](event_rows.COLUMNS, event_rows.key, id="events", empty="no events match")
        yield VTable[AuditView](audit_rows.COLUMNS, lambda row: str(row.id), id="audit", empty=LOADING)
        yield Reading(id="whole", wraps=True)

    def on_mount(self) -> None:
        """Start the timer that shows new events."""
        self.set_interval(FLUSH_S, self._settle)

    def arrive(self, about: str) -> None:
        """Follow events from the last one known; about a job, show only its events."""
        if about != self.about:
            self.events.filter(f"job:={about}" if about else "")
        super().arrive(about)
        if self.feed is None:
            self.feed = EventFeed(self.console_app.link, self.book.take, lambda _: None, PAGE, self._page_is_here)
        self.run_worker(self.feed.follow(), group="events", exclusive=True)
        if self.audited:
            self._ask_audit()

    def _page_is_here(self) -> None:
        """The newest page is known whole, so an older one may be asked for."""
        self.first_page = True

    def leave(self) -> None:
        """Stop following events while another screen is in front."""
        self.workers.cancel_group(self, "events")

    def path(self) -> list[str]:
        return ["Events", "audit" if self.audited else self.about] if self.audited or self.about else ["Events"]

    def command(self) -> str:
        if self.audited:
            return "rwkvctl audit"
        return "rwkvctl events" + (f" --kind {' '.join(SUBJECTS[self.book.subject])}" if self.book.subject else "")

    @property
    def events(self) -> VTable[EventRow]:
        return self.query_one("#events", VTable)

    @property
    def audited(self) -> bool:
        return self.has_class("-audit")

    # -- drawing ---------------------------------------------------------------------------------------------------

    def draw(self, state: ConsoleState) -> None:
        stale = bool(state.problem)
        show(self.events, self._title(), self.book.shown, stale=stale)
        show(self.query_one("#audit", VTable), [("Audit, newest first", "title")], self.audits, stale=stale)
        self._show_whole()

    def _title(self) -> Pieces:
        book = self.book
        said = [("Events, newest first", "title")]
        said += [(f"  {words}", "accent") for words in (book.subject, SEVERITIES[book.severity]) if words]
        if book.severity or book.subject:
            said.append((f"  {len(book.shown):,} of {len(book.rows):,}", ""))
        if book.rows:
            oldest = book.rows[-1].at
            back = "all loaded" if book.began else f"back to {oldest[5:10]} {oldest[11:19]}"
            said.append((f"  {back}{'…' if self.fetching else ''}", "dim"))
        return said

    def _settle(self) -> None:
        """Show new events. At the top the cursor stays on the newest; elsewhere the rows in view do not move."""
        table, top = self.events, self.events.scroll_offset.y
        new = self.book.settle()
        if new or (self.book.rows and not table.listing.rows):
            show(table, self._title(), self.book.shown, stale=table.stale)
            if top and table.cursor and not table.listing.sorts and not table.filter_text:
                table.scroll_to(y=top + new, animate=False, force=True)
        if self.audited:
            self._look_back_in_audit(fresh=bool(new))
        else:
            self._look_back()

    def _look_back_in_audit(self, *, fresh: bool) -> None:
        """Fetch older entries as the cursor nears the last, and the newest where something has just been changed, or
        where events were being fetched when they were asked for."""
        table: VTable[AuditView] = self.query_one("#audit", VTable)
        if not self.audit_answered or (fresh and table.cursor == 0):
            self._ask_audit()
        elif self.audit_next and table.cursor + AHEAD >= table.count:
            self._ask_audit(self.audit_next)

    def on_vtable_moved(self, message: VTable.Moved) -> None:
        """Show the whole row under the cursor below the list."""
        message.stop()
        self._show_whole()

    def _show_whole(self) -> None:
        panel = self.query_one("#audit" if self.audited else "#events", VTable)
        whole = self.query_one("#whole", Reading)
        row = panel.listing.row(panel.cursor) if panel.chosen else None
        stale = panel.stale
        if isinstance(row, EventRow):
            about = " ".join(word for word in (row.job, row.engine, row.session) if word)
            whole.show([[(f" {row.text or row.kind}", row.role)], [(f" {about}", "dim")]], stale=stale,
                       title=[(f"{row.seq} · {row.at} · {row.kind}", "title")])  # fmt: skip
        elif isinstance(row, AuditView):
            lines: list[Pieces] = [[(f" {row.verb} {row.target}: ", "bold"), (row.outcome, "")],
                                   [(f" {audit_rows.asked(row)}", "dim")]]  # fmt: skip
            whole.show(lines, title=[(f"{row.id} · {row.at} · {row.user}", "title")], stale=stale)
        else:
            whole.show([], title=[("no event selected", "title")], stale=stale)

    # -- the past --------------------------------------------------------------------------------------------------

    def _look_back(self) -> None:
        """Fetch the page before the oldest event that is known, where it is wanted: the cursor nears it, few rows pass,
        or a time was asked for."""
        if self.wanted_at:
            self._arrive_at(self.book.place_at(self.wanted_at))
        if self._wants_more and not self.fetching and self.feed is not None and time.monotonic() >= self.not_before:
            self.fetching = True
            self.run_worker(self._go_back(), group="back", exclusive=True)

    @property
    def _wants_more(self) -> bool:
        """Return whether an older page is wanted and may exist."""
        near = self.events.cursor + max(AHEAD, self.events.page_rows) >= self.events.count
        return self.first_page and (near or bool(self.wanted_at)) and self.book.may_go_back

    async def _go_back(self) -> None:
        """Fetch older pages as long as more are wanted."""
        try:
            while self._wants_more:
                request = EventsRequest(limit=PAGE, before=self.book.oldest)
                page = [event async for event in self.console_app.link.events(request)]
                self.book.extend(page, wanted=PAGE)
                self.events.show(self._title(), self.book.shown, stale=self.events.stale)
                if self.wanted_at:
                    self._arrive_at(self.book.place_at(self.wanted_at))
        except RwkvctlError as error:
            self.wanted_at, self.not_before = "", time.monotonic() + AGAIN_S
            self.console_app.say(f"Older events cannot be loaded: {error}", "bad")
            return
        finally:
            self.fetching = False
        self.events.show(self._title(), self.book.shown, stale=self.events.stale)

    def _arrive_at(self, place: int | None) -> None:
        """Move the cursor to the requested time, or to the oldest event if it is not reached."""
        if place is None and self.book.may_go_back:
            return
        self.wanted_at = ""
        self.events.move_to(self.events.count if place is None else place)
        if place is None:
            self.console_app.say("no known event happened before that time", "warn")

    def action_time(self) -> None:
        """Ask for a time and go to what happened then."""
        self.console_app.frame.ask("@", "", done=self._go_to)

    def _go_to(self, text: str) -> None:
        if text:
            self.wanted_at = moment(text)
            self._look_back()

    # -- keys ------------------------------------------------------------------------------------------------------

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Go to the job, or to the engine's log."""
        message.stop()
        row = message.table.listing.row(message.table.cursor)
        if isinstance(row, EventRow) and (row.job or row.engine):
            self.console_app.go(*(("job", row.job) if row.job else ("logs", row.engine)))

    def action_severity(self) -> None:
        """Switch to the next filter of severity."""
        kinds = list(SEVERITIES)
        self._narrow(kinds[(kinds.index(self.book.severity) + 1) % len(kinds)], self.book.subject)

    def action_subject(self) -> None:
        """Switch to the next kind of subject to show events of."""
        kinds = list(SUBJECTS)
        self._narrow(self.book.severity, kinds[(kinds.index(self.book.subject) + 1) % len(kinds)])

    def _narrow(self, severity: event_rows.Severity, subject: str) -> None:
        self.book.narrow(severity, subject)
        self.draw(self.console_app.state)

    def action_audit(self) -> None:
        """Toggle between the audit trail and the events."""
        self.toggle_class("-audit")
        panel = self.query_one("#audit" if self.audited else "#events", VTable)
        self.screen.set_focus(panel, scroll_visible=False)
        if self.audited:
            self._ask_audit()
        self.console_app.draw()

    def _ask_audit(self, before: int = 0) -> None:
        if not self.fetching:
            self.fetching = True
            self.run_worker(self._fetch_audit(before), group="back", exclusive=True)

    async def _fetch_audit(self, before: int) -> None:
        """Fetch the newest entries, or a page of older ones."""
        table: VTable[AuditView] = self.query_one("#audit", VTable)
        try:
            reply = await self.console_app.link.ask(AuditRequest(limit=PAGE, before=before), AuditReply)
        except RwkvctlError as error:
            table.empty = str(error)
            table.repaint()
        else:
            table.empty = "no changes recorded"
            table.repaint()
            self.audits = [*(self.audits if before else ()), *reply.items]
            self.audit_next = reply.next
        finally:
            self.fetching = False
        self.audit_answered = True
        self.console_app.draw()


def show(table: VTable[RowT], title: Pieces, rows: list[RowT], *, stale: bool) -> None:
    """Show rows; whoever stands at the top stays there, and sees the newest."""
    follows = table.cursor == 0
    table.show(title, rows, stale=stale)
    if follows and table.cursor:
        table.move_to(0)


SCREEN = Events
