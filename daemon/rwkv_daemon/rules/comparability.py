"""What must be equal before two scores may be compared, field by field. Pure: it reads provenance only."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rwkvctl.protocol.endpoints import is_api
from rwkvctl.protocol.views import ScoreView

DECISIVE: Final = (
    "benchmark_version", "numerics", "grader", "grader_version",
)  # fmt: skip
"""Fields of the provenance that change what a score means."""

HARMLESS: Final = ("seed", "rwkvctl_version", "git_commit", "host")
"""Fields that are mentioned if they differ: they may change single samples, not what is measured."""

OF_ENGINES: Final = ("device", "engine_version", "torch_version")
PICK_ROWS: Final = ("rows", "where", "window", "part", "share", "order")
"""Settings that decide which row of the set a row number means."""
UNREAD: Final = frozenset({"seed", "kind"})
LONGEST: Final = 60


def decisive_differences(a: ScoreView, b: ScoreView) -> list[str]:
    """Return the differences that forbid the comparison, each as `field: value in A, value in B`."""
    pairs: list[tuple[str, object, object]] = [("kind", a.kind, b.kind)]
    pairs += [(name, a.provenance.get(name), b.provenance.get(name)) for name in DECISIVE if not of_api(name, a, b)]
    rows = [str(view.provenance.get("rows_sha256") or "") for view in (a, b)]
    pairs.append(("rows_sha256", rows[0] or "not known", rows[1] or "unknown"))
    if a.partial or b.partial:
        pairs.append(("limit", a.provenance.get("limit"), b.provenance.get("limit")))
    for nested in ("configuration", "grading"):
        ours, theirs = flat(a.provenance.get(nested)), flat(b.provenance.get(nested))
        pairs += [(name, ours.get(name), theirs.get(name)) for name in dict.fromkeys([*ours, *theirs])]
    return told(pairs)


def of_api(name: str, a: ScoreView, b: ScoreView) -> bool:
    """Whether a field is the numerics, and one score has the API of an endpoint there: a teacher has no numerics that a
    student's could be equal to, and what both were asked is compared by the configuration."""
    return name == "numerics" and any(is_api(str(view.provenance.get(name, ""))) for view in (a, b))


def row_numbering(configuration: Mapping[str, Any]) -> tuple[object, ...]:
    """Return what decides which row of the prepared set a row number means: two runs over the same rows with equal
    values number them alike. Part and share are drawn from all rows that are left, and an order is of all of them;
    otherwise it does not matter how far a range goes."""
    rows, whole = str(configuration.get("rows", "")), [configuration.get(name) for name in ("part", "share", "order")]
    first = int(rows.partition(":")[0] or 0)
    return first, rows if any(whole) else "", configuration.get("where"), configuration.get("window"), *whole


def rows_picked(a: ScoreView, b: ScoreView) -> list[str]:
    """Return what both scores picked rows by, where they picked the same: what is compared is not the whole set."""
    ours, theirs = (flat(view.provenance.get("configuration")) for view in (a, b))
    both = [name for name in ("rows", "where", "order") if ours.get(name) and ours[name] == theirs.get(name)]
    return [f"{a.benchmark}: rows picked by {name}={spelled(ours[name])}, on both sides" for name in both]


def harmless_differences(a: ScoreView, b: ScoreView) -> list[str]:
    """Return the differences that do not forbid the comparison."""
    of_apis = [name for name in DECISIVE if of_api(name, a, b)]
    pairs = [(name, a.provenance.get(name), b.provenance.get(name)) for name in (*of_apis, *HARMLESS)]
    pairs += [(f"engine {name}", of_engines(a, name), of_engines(b, name)) for name in OF_ENGINES]
    return told(pairs)


def told(pairs: Iterable[tuple[str, object, object]]) -> list[str]:
    """Describe the pairs, each (field, value in A, value in B), whose two values differ."""
    return [f"{name}: {spelled(one)} in A, {spelled(other)} in B" for name, one, other in pairs if one != other]


def spelled(value: object) -> str:
    """Return a value as text, cut to `LONGEST` characters; `nothing` if it is empty or None."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return (text if len(text) <= LONGEST else f"{text[:LONGEST]}…") if text and value is not None else "nothing"


def flat(value: object, prefix: str = "") -> dict[str, object]:
    """Return a nested value as dotted names; members of a list are named by their own name, if they have one."""
    members = dict(_members(value))
    if not members:
        return {prefix: value} if prefix else {}
    found: dict[str, object] = {}
    for name, member in members.items():
        if name not in UNREAD or prefix:
            found |= flat(member, f"{prefix}.{name}" if prefix else name)
    return found


def _members(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list) and all(isinstance(member, Mapping) for member in value):
        for number, member in enumerate(value):
            yield str(member.get("name", number)), {name: inner for name, inner in member.items() if name != "name"}


def of_engines(view: ScoreView, name: str) -> str:
    """Return what the engines of a score report under this name."""
    engines: Any = view.provenance.get("engines")
    known = engines if isinstance(engines, list) else []
    return ", ".join(sorted({str(engine.get(name, "")) for engine in known if isinstance(engine, Mapping)}))


def is_imported(view: ScoreView) -> bool:
    """Whether the score was imported from another program."""
    return "imported" in view.provenance
