"""Recipes: those of the node, the funnel of the one under the cursor while it grows, and what its writer has cost."""

import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import msgspec
from textual.binding import Binding, BindingType
from textual.widget import Widget

from rwkvctl.cli.client import request_id
from rwkvctl.protocol.errors import RefusedError, RwkvctlError
from rwkvctl.protocol.recipes import (
    RecipeChange,
    RecipeReply,
    RecipeRequest,
    RecipesReply,
    RecipesRequest,
    RecipeView,
)
from rwkvctl.protocol.replies import EndpointsReply
from rwkvctl.protocol.requests import EndpointsRequest
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.daemon.client import STOP_S
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.recipes import funnel_rows, recipe_rows
from rwkvctl.tui.recipes.funnel_rows import Behind, FunnelRow
from rwkvctl.tui.recipes.recipe_rows import Action
from rwkvctl.tui.samples.summary import about_of
from rwkvctl.tui.shell.polling_screen import PollingScreen
from rwkvctl.tui.widgets.reader import Reading
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table import LOADING, VTable

NO_RECIPES: Final = "no recipe has been run; see `:help recipe run`"
NOT_READ: Final = "This recipe is still being read: press the key again in a moment."
KEPT: Final = 20
"""Recipes that are kept with their jobs, so that going back to one shows it at once."""


class Recipes(PollingScreen):
    """The list, and below it what the recipe under the cursor does and its funnel. `about` is that recipe: `r3`."""

    NAME = "recipes"
    FIRST_PANEL = "recipes"
    DEFAULT_CSS = """
    Recipes #recipes { height: 1fr; min-height: 4; }
    Recipes #doing { height: 5; }
    Recipes #funnel { height: 2fr; min-height: 5; }
    Recipes.-dense #doing { height: 4; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause or resume"),
        Binding("s", "stop", "Stop…"),
        Binding("d", "dropped", "List what was dropped in cleaning", show=False),
    ]

    items: tuple[RecipeView, ...] = ()
    """The newest recipes, and an older one that was asked for."""
    tally = ""
    endpoints: EndpointsReply | None = None
    refusal = ""
    """Why the daemon lists no recipes."""
    go_to = ""
    """The recipe to move the cursor to, once the list has been read since it was asked for."""
    is_read = False

    def body(self) -> Iterable[Widget]:
        self.detailed: dict[str, RecipeView] = {}
        yield VTable[RecipeView](recipe_rows.RECIPES, recipe_rows.key_of, id="recipes", empty=LOADING)
        yield Reading(id="doing", wraps=True)
        yield VTable[FunnelRow](funnel_rows.COLUMNS, lambda row: row.key, id="funnel", empty=LOADING)

    @property
    def listed(self) -> "VTable[Any]":
        return self.query_one("#recipes", VTable)

    @property
    def funnel(self) -> "VTable[Any]":
        return self.query_one("#funnel", VTable)

    # -- reading ---------------------------------------------------------------------------------------------------

    def arrive(self, about: str) -> None:
        """Show the list, with the cursor on the named recipe."""
        place = self.listed.listing.place_of(about) if about else -1
        if place >= 0:
            self.listed.move_to(place)
        self.go_to, self.is_read = about if place < 0 else "", False
        super().arrive(about)

    def leave(self) -> None:
        """Stop reading while another screen is in front."""
        super().leave()
        self.workers.cancel_group(self, "look")

    async def fetch(self) -> None:
        link, asked_for = self.console_app.link, self.go_to
        try:
            page = await link.ask(RecipesRequest(), RecipesReply)
        except RefusedError as error:
            self.refusal = str(error)
            raise
        items, self.tally, self.refusal = page.items, recipe_rows.tally(page.items, more=bool(page.next)), ""
        with contextlib.suppress(RefusedError):  # an older daemon knows no endpoints
            self.endpoints = await link.ask(EndpointsRequest(), EndpointsReply)
        if chosen := asked_for or self.listed.chosen:
            await self._read(chosen)
            if chosen in self.detailed and all(one.recipe != chosen for one in items):
                items = (*items, self.detailed[chosen])  # it is older than those of the page
        self.items, self.is_read = items, asked_for == self.go_to

    async def _read(self, recipe: str) -> None:
        """Read a recipe with its jobs; one that does not exist any more is forgotten. Raises RwkvctlError."""
        try:
            reply = await self.console_app.link.ask(RecipeRequest(recipe=recipe), RecipeReply)
        except RefusedError as error:
            if error.code != "no-such-recipe":
                raise
            self.detailed.pop(recipe, None)
            return
        self.detailed[recipe] = reply.recipe
        for old in list(self.detailed)[: max(0, len(self.detailed) - KEPT)]:
            del self.detailed[old]

    async def _look(self, recipe: str) -> None:
        """Read the recipe to which the cursor has moved."""
        with contextlib.suppress(RwkvctlError):  # the next poll reports the error
            await self._read(recipe)
            self.draw(self.console_app.state)

    def on_vtable_moved(self, message: VTable.Moved) -> None:
        """Show the recipe under the cursor, and read it unless it is known."""
        message.stop()
        if message.table is self.listed and not self.go_to:
            self.amend_place(message.key)
            self._show_chosen()
            if message.key and message.key not in self.detailed:
                look: Any = partial(self._look, message.key)
                self.run_worker(look, group="look", exclusive=True)

    # -- drawing ---------------------------------------------------------------------------------------------------

    def headline(self, state: ConsoleState) -> Pieces:
        return [(" Recipes", "title"), (f"   {self.tally}", "")]

    def command(self) -> str:
        shown = self.listed.chosen
        return as_typed(["rwkvctl", "recipe", "show", shown]) if shown else "rwkvctl recipe list"

    def draw(self, state: ConsoleState) -> None:
        listed = self.listed
        listed.empty = self.refusal or (NO_RECIPES if self.known else LOADING)
        title = self.tally if self.has_class("-dense") and self.tally else "Recipes, newest first"
        listed.show(title, list(self.items), stale=bool(state.problem))
        if self.go_to and self.is_read:
            self._go_to()
        self._show_chosen()

    def _go_to(self) -> None:
        """Move the cursor to the recipe that was asked for; a filter that hides it is cleared."""
        recipe, self.go_to = self.go_to, ""
        self.amend_place(recipe if any(one.recipe == recipe for one in self.items) else self.listed.chosen)
        if all(one.recipe != recipe for one in self.items):
            self.console_app.say(f"There is no recipe {recipe}.", "warn")
            return
        if self.listed.listing.place_of(recipe) < 0:
            self.listed.filter("")
        self.listed.move_to(self.listed.listing.place_of(recipe))

    def _show_chosen(self) -> None:
        chosen, stale = self.listed.chosen, bool(self.console_app.state.problem)
        row = self._shown(chosen)
        doing, funnel = self.query_one("#doing", Reading), self.funnel
        if row is None:
            doing.show([], title=[("no recipe selected", "title")], stale=stale)
            funnel.empty = "no recipe selected" if self.known or self.refusal else LOADING
            funnel.show("Funnel", [], stale=stale)
            return
        lines = recipe_rows.about(row, self.endpoints)
        doing.show(lines, title=[(f"{row.recipe} {row.name}", "title")], stale=stale)
        funnel.empty = "nothing is sampled yet" if chosen in self.detailed else LOADING
        funnel.show(f"Funnel of {row.recipe}", funnel_rows.rows_of(row), stale=stale)

    def _shown(self, recipe: str) -> RecipeView | None:
        """Return what is known of a recipe: its jobs as they were read, and its state as the list has it."""
        listed = next((one for one in self.items if one.recipe == recipe), None)
        known = self.detailed.get(recipe)
        if listed is None or known is None:
            return known or listed
        return msgspec.structs.replace(known, state=listed.state, detail=listed.detail, rows=listed.rows)

    # -- opening ---------------------------------------------------------------------------------------------------

    def on_vtable_opened(self, message: VTable.Opened) -> None:
        """Go from a recipe to its funnel, and from a row of that to what it counts."""
        message.stop()
        if message.table is self.listed:
            if self.has_class("-zoomed"):
                self.action_zoom()
            self.funnel.focus(scroll_visible=False)
            return
        recipe, place = self.detailed.get(self.listed.chosen), self.funnel.listing.place_of(message.key)
        if recipe is None or place < 0:
            self.console_app.say(NOT_READ, "warn")
        else:
            self._open(funnel_rows.behind(self.funnel.listing.row(place), recipe), recipe)

    def _open(self, behind: Behind, recipe: RecipeView) -> None:
        from rwkvctl.tui.shell.dialogs import Menu  # dialogs are not part of the first frame

        def chosen(place: int | None) -> None:
            if place is None:
                return
            job = behind.jobs[place]
            if behind.narrowed is None:
                self.console_app.go("job", job)
            else:
                self.console_app.go("samples", about_of(job, behind.narrowed))

        if behind.command:
            self.console_app.commander.run(*behind.command)
        elif behind.why_nothing:
            self.console_app.say(behind.why_nothing, "warn")
        elif len(behind.jobs) == 1:
            chosen(0)
        else:
            lines = funnel_rows.job_lines(behind.jobs, recipe)
            self.console_app.push_screen(Menu("Which job?", lines), chosen)

    def action_dropped(self) -> None:
        """List the problems that were dropped in cleaning, with what they are near to."""
        if self.listed.chosen:
            self.console_app.commander.run("recipe", "show", self.listed.chosen, "--dropped")
        else:
            self.console_app.say(self.listed.why_no_row, "warn")

    def action_back(self) -> None:
        """Go from the funnel back to the list, else back as on every screen."""
        if self.panel is self.funnel and not self.narrowed:
            self.listed.focus(scroll_visible=False)
        else:
            super().action_back()

    # -- acting ----------------------------------------------------------------------------------------------------

    def action_pause(self) -> None:
        """Pause the chosen recipes that are at work, and resume the others; of several it asks first."""
        self._begin([(row, recipe_rows.pause_or_resume(row)) for row in self._meant()])

    def action_stop(self) -> None:
        """Ask whether to stop the chosen recipes."""
        self._begin([(row, "stop") for row in self._meant()])

    def _meant(self) -> list[RecipeView]:
        """Return the recipes that a key acts on; if there are none, tell the operator why."""
        chosen = set(self.targets_in(self.listed))
        return [row for row in self.items if row.recipe in chosen]

    def _begin(self, changes: "Sequence[tuple[RecipeView, Action]]") -> None:
        if changes and self.console_app.may_write():
            work: Any = partial(self._ask_and_change, changes)
            self.run_worker(work, group="change")

    async def _ask_and_change(self, changes: "Sequence[tuple[RecipeView, Action]]") -> None:
        """Change recipes one after the other, and report what became of each. What stops one, or is done to several, is
        asked first."""
        from rwkvctl.tui.shell.dialogs import Question  # dialogs are not part of the first frame

        console = self.console_app
        if len(changes) > 1 or changes[0][1] == "stop":
            agreed = await console.push_screen_wait(Question(recipe_rows.question(changes)))
            if not agreed or not console.may_write():
                return
        said, role = list[str](), "ok"
        for row, action in changes:
            console.did("recipe", action, row.recipe)
            request = RecipeChange(recipe=row.recipe, action=action, request_id=request_id())
            try:
                changed = (await console.link.ask(request, RecipeReply, STOP_S)).recipe
            except RwkvctlError as error:
                said.append(str(error))
                role = "bad"
            else:
                said.append(f"{changed.recipe} {changed.name}: {changed.state}")
        console.say("; ".join(said), role, for_s=15.0)
        self.action_ask_again()


SCREEN = Recipes
