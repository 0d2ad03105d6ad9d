"""What an endpoint takes of the OpenAI API. Servers differ in three things, and say so by refusing."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class RequestStyle:
    """What an endpoint takes: replies by schema, the name of the length field, a temperature."""

    structured: bool = True
    length_field: str = "max_tokens"
    temperature: bool = True

    def instead(self, refusal: str) -> "RequestStyle | None":
        """What to try after a refusal: what it names, else without the schema; None if nothing is left to drop."""
        if "max_completion_tokens" in refusal and self.length_field == "max_tokens":
            return replace(self, length_field="max_completion_tokens")
        if "temperature" in refusal.lower() and self.temperature:
            return replace(self, temperature=False)
        return replace(self, structured=False) if self.structured else None


STANDARD = RequestStyle()
