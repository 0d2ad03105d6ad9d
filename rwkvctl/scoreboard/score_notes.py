"""Notes that qualify a score, with the same wording in every view."""

from rwkvctl.cli.client import Record


def notes(score: Record) -> list[str]:
    """Return the notes on a score, the most general first."""
    found = ["imported"] if "imported" in score.get("provenance", {}) else []
    found += ["partial"] if score.get("partial") else []
    return [*found, *measured_as(score), *score.get("warnings", ())]


def counted(score: Record, name: str) -> int | None:
    """Return how many samples of a score were cut off, had no answer, and so on; None of one that came without samples:
    nothing of that is known."""
    return int(score.get(name, 0)) if has_samples(score) else None


def has_samples(score: Record) -> bool:
    """Whether samples stand behind a score; one of another program may have come without."""
    imported = "imported" in score.get("provenance", {})
    return not imported or bool(score.get("scored") or score.get("errors"))


def failed(score: Record) -> int | None:
    """Return how many samples have no verdict; None if that is not known."""
    return score.get("errors", 0) + score.get("unjudged", 0) if has_samples(score) else None


def measured_as(score: Record) -> list[str]:
    """The name under which the weights were measured, where it is another than that of the score."""
    name = score.get("measured_as", "")
    return [f"measured as {name} (same weights)"] if name else []
