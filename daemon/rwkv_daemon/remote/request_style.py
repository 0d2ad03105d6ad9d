"""Which parts of the OpenAI API a server accepts. Servers differ, and reject what they do not accept."""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class RequestStyle:
    """What a server accepts: replies by JSON schema, the name of the length field; `without` are fields it refuses."""

    structured: bool = True
    length_field: str = "max_tokens"
    without: frozenset[str] = frozenset()

    def takes(self, field: str) -> bool:
        """Whether the server is sent a field."""
        return field not in self.without

    def instead(self, refusal: str, optional: Collection[str]) -> "RequestStyle | None":
        """Return the style to try after a refusal: without what the refusal names of the optional fields, else without
        the schema; None if nothing is left to drop."""
        if "max_completion_tokens" in refusal and self.length_field == "max_tokens":
            return replace(self, length_field="max_completion_tokens")
        named = {field for field in optional if self.takes(field) and names(refusal, field)}
        if named:
            return replace(self, without=self.without | named)
        return replace(self, structured=False) if self.structured else None

    def learning(self, tried: "RequestStyle", *, structured: bool) -> "RequestStyle":
        """Return what is known after a request in the style `tried` has worked; `structured`: it asked for a schema, so
        that it tells whether schemas are accepted."""
        return RequestStyle(
            structured=self.structured and (tried.structured or not structured),
            length_field=tried.length_field,
            without=self.without | tried.without,
        )


def names(refusal: str, field: str) -> bool:
    """Whether a refusal names a field, as a word of its own."""
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(field)}s?(?![A-Za-z0-9_])", refusal, re.IGNORECASE) is not None
