"""Which parts of the OpenAI API an endpoint accepts. Servers differ in three, and reject what they do not accept."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class RequestStyle:
    """What an endpoint accepts: replies by JSON schema, the name of the length field, a temperature."""

    structured: bool = True
    length_field: str = "max_tokens"
    temperature: bool = True

    def instead(self, refusal: str) -> "RequestStyle | None":
        """Return the style to try after a refusal: without what the refusal names, else without the schema; None if
        nothing is left to drop."""
        if "max_completion_tokens" in refusal and self.length_field == "max_tokens":
            return replace(self, length_field="max_completion_tokens")
        if "temperature" in refusal.lower() and self.temperature:
            return replace(self, temperature=False)
        return replace(self, structured=False) if self.structured else None


STANDARD = RequestStyle()
