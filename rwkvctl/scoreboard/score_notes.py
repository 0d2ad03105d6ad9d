"""Notes that qualify a score, with the same wording in every view."""

from rwkvctl.cli.client import Record


def notes(score: Record) -> list[str]:
    """Return the notes on a score, the most general first."""
    found = ["imported"] if "imported" in score.get("provenance", {}) else []
    found += ["partial"] if score.get("partial") else []
    return [*found, *measured_as(score), *score.get("warnings", ())]


def measured_as(score: Record) -> list[str]:
    """The name under which the weights were measured, where it is another than that of the score."""
    name = score.get("measured_as", "")
    return [f"measured as {name} (same weights)"] if name else []
