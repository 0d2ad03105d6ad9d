"""Which parts of the OpenAI API a server accepts. Servers differ, and reject what they do not accept.

A refusal that names a field may concern the field or its value. A field that was accepted once is known to the server.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Final

FEW_STOPS: Final = 4
"""Stop strings that OpenAI takes at most; many servers take any number."""


@dataclass(frozen=True, slots=True)
class RequestStyle:
    """What a server accepts: replies by JSON schema, the name of the length field, how many stop strings (0: any
    number). `without` are fields that it refuses, `taken` those that it has accepted."""

    structured: bool = True
    length_field: str = "max_tokens"
    without: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    most_stops: int = 0

    def __str__(self) -> str:
        said = [] if self.structured else ["without a JSON schema"]
        if self.length_field != "max_tokens":
            said.append(f"with {self.length_field}")
        if self.without:
            said.append(f"without {', '.join(sorted(self.without))}")
        if self.most_stops:
            said.append(f"with {self.most_stops} stop strings at most")
        return ", ".join(said)

    def takes(self, name: str) -> bool:
        """Whether the server is sent a field."""
        return name not in self.without

    def instead(self, refusal: str, optional: Collection[str]) -> "RequestStyle | None":
        """Return the style to try after a refusal: without what the refusal names of the optional fields, else without
        the schema; None if nothing is left to drop."""
        if "max_completion_tokens" in refusal and self.length_field == "max_tokens":
            return replace(self, length_field="max_completion_tokens")
        named = {name for name in optional if self.takes(name) and names(refusal, name)}
        if "stop" in named and not self.most_stops:
            return replace(self, most_stops=FEW_STOPS)
        if named:
            return replace(self, without=self.without | named)
        return replace(self, structured=False) if self.structured else None

    def learning(self, worked: "RequestStyle", sent: Collection[str], *, structured: bool) -> "RequestStyle":
        """Return what is known after a request in the style `worked`, which had the optional fields `sent`.
        `structured`: it asked for a schema, so that it tells whether schemas are accepted."""
        return RequestStyle(
            structured=self.structured and (worked.structured or not structured),
            length_field=worked.length_field,
            without=self.without | worked.without,
            taken=self.taken | {name for name in sent if worked.takes(name)},
            most_stops=self.most_stops or worked.most_stops,
        )


def response_format(name: str, schema: str) -> dict[str, Any]:
    """Return the field that asks for a reply by a JSON Schema, which OpenAI's API wants named."""
    named = {"name": name, "strict": True, "schema": json.loads(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def names(refusal: str, name: str) -> bool:
    """Whether a refusal names a field, as a word of its own."""
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}s?(?![A-Za-z0-9_])", refusal, re.IGNORECASE) is not None
