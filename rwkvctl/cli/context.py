"""What a verb is given: the configuration, the client, the terminal, and how output is wanted."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from rwkvctl.cli.client import Answer, Client, Record, client_of, request_id
from rwkvctl.cli.render import LONGEST, Table, Terminal, separated
from rwkvctl.settings import config
from rwkvctl.text.json_envelope import envelope
from rwkvctl.text.sanitize import fit, safe_line

View = Callable[[Terminal], Sequence[Table]]
"""Tables of a reply. On a terminal a view may also write lines of its own between them."""


class Context:
    """One call of the CLI. `output` is table, wide (a table that nothing is cut from), json, tsv, or empty for: a table
    on a terminal, else tsv."""

    def __init__(self, terminal: Terminal, flags: Mapping[str, object] | None = None, output: str = "") -> None:
        self.terminal, self.flags, self.output = terminal, dict(flags or {}), output

    @cached_property
    def config(self) -> config.Config:
        """The configuration; warnings about unknown variables are said once."""
        found = config.load(self.flags)
        for warning in found.warnings:
            self.terminal.note(f"warning: {warning}", "warn")
        return found

    @cached_property
    def client(self) -> Client:
        """The client of the configured daemon; its warnings are printed on the terminal."""
        client = client_of(self.config)
        client.warn = lambda text: self.terminal.note(f"warning: {text}", "warn")
        return client

    @property
    def as_json(self) -> bool:
        """Whether the reply itself is wanted."""
        return self.output == "json"

    @property
    def as_tabs(self) -> bool:
        """Whether tab-separated lines are wanted: asked for, or because nobody looks."""
        return self.output == "tsv" or (self.output == "" and not self.terminal.is_tty)

    def change(self, route: str, body: Record, timeout_s: float = 0.0) -> Answer:
        """Ask for a change under a fresh request id, so that a repetition is harmless."""
        return self.client.post(route, body | {"request_id": request_id()}, timeout_s)

    def show(self, answer: Answer, *tables: Table, headline: Sequence[str] = ()) -> None:
        """The reply verbatim, or its tables; the lines of a headline are for people only."""
        if self.as_json:
            self.terminal.json(answer.raw.decode(errors="replace"))
            return
        if not self.as_tabs:
            for line in headline:
                self.terminal.line(fit(safe_line(line), LONGEST))
        self.tables(*tables)

    def tables(self, *tables: Table) -> None:
        """Tables under one another, with a blank line between; in a pipe one, so that it has one header line."""
        if self.as_tabs:
            self.terminal.write("".join(line + "\n" for line in separated(*tables) if tables))
            return
        for number, table in enumerate(table for table in tables if table.rows or table.empty):
            if number:
                self.terminal.line()
            self.terminal.table(table, tabs=False, whole=self.output == "wide")

    def show_local(self, schema: str, fields: dict[str, Any], *tables: Table, headline: Sequence[str] = ()) -> None:
        """Something this process knows by itself, in the same envelope as a reply of the daemon."""
        self.show(Answer(envelope(schema, fields).encode(), {}), *tables, headline=headline)

    def say(self, text: str) -> None:
        """A sentence for the operator that is no data."""
        self.terminal.note(text)
