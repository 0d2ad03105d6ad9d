"""The context of a verb: configuration, client, terminal and output format."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from rwkvctl.cli.client import Answer, Client, Record, client_of, request_id
from rwkvctl.cli.render import LONGEST, Table, Terminal, separated
from rwkvctl.settings import config
from rwkvctl.text.json_envelope import envelope
from rwkvctl.text.sanitize import fit, safe_line

"""Tables of a reply. On a terminal a view may also write lines of its own between them."""


class Context:
    """One call of the CLI. `output` is table, wide (a table that nothing is cut from), json, tsv, or empty for: a table
    on a terminal, else tsv."""

    def __init__(self, terminal: Terminal, flags: Mapping[str, object] | None = None, output: str = "") -> None:
        self.terminal, self.flags, self.output = terminal, dict(flags or {}), output

    @cached_property
    def config(self) -> config.Config:
        """The configuration; warnings about unknown variables are printed once."""
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
        """Return whether output is the JSON reply itself instead of a table."""
        return self.output == "json"

    @property
    def as_tabs(self) -> bool:
        """Return whether output is tab-separated lines: asked for, or because standard output is no terminal."""
        return self.output == "tsv" or (self.output == "" and not self.terminal.is_tty)

    def change(self, route: str, body: Record, timeout_s: float = 0.0) -> Answer:
        """Ask for a change under a fresh request id, so that a repetition is harmless."""
        return self.client.post(route, body | {"request_id": request_id()}, timeout_s)

    def show(self, answer: Answer, *tables: Table, headline: Sequence[str] = ()) -> None:
        """Write the reply verbatim as JSON, or its tables; the lines of a headline are written on a terminal only."""
        if self.as_json:
            self.terminal.json(answer.raw.decode(errors="replace"))
            return
        if not self.as_tabs:
            for line in headline:
                self.terminal.line(fit(safe_line(line), LONGEST))
        self.tables(*tables)

    def tables(self, *tables: Table) -> None:
        """Write several tables with a blank line between them; in a pipe they become one table with one header line."""
        if self.as_tabs:
            self.terminal.write("".join(line + "\n" for line in separated(*tables) if tables))
            return
        for number, table in enumerate(table for table in tables if table.rows or table.empty):
            if number:
                self.terminal.line()
            self.terminal.table(table, tabs=False, whole=self.output == "wide")

    def show_local(self, schema: str, fields: dict[str, Any], *tables: Table, headline: Sequence[str] = ()) -> None:
        """Write a result that this process computed without the daemon, in the same envelope as a reply."""
        self.show(Answer(envelope(schema, fields).encode(), {}), *tables, headline=headline)

    def say(self, text: str) -> None:
        """Print a sentence for the operator on standard error."""
        self.terminal.note(text)
