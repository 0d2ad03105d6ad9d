"""What the samples of a job say, computed by other means than the product's; and the feedback of a live node."""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec

from rwkvctl.protocol.training.feedback import FeedbackReply


def write_suite(node: Any, config: Path, text: str) -> None:
    """Write the benchmarks.toml of a node, which is not started yet or reloads it."""
    node.settings["XDG_CONFIG_HOME"] = str(config)
    (config / "rwkvctl").mkdir(exist_ok=True, parents=True)
    (config / "rwkvctl" / "benchmarks.toml").write_text(text)


def checkpoints(node: Any, watch: str = "w1") -> list[dict[str, Any]]:
    """The checkpoints of a watch, the last step first."""
    return list(node.api.get(f"/v1/watches/{watch}").value["items"])


def states(node: Any, watch: str = "w1") -> dict[str, str]:
    return {one["name"]: one["state"] for one in checkpoints(node, watch)}


def until_states(node: Any, expected: dict[str, str], watch: str = "w1") -> None:
    node.until(lambda: states(node, watch) == expected, f"the checkpoints are {expected}")


def feedback(node: Any, *words: str, watch: str = "w1") -> dict[str, Any]:
    """The reply to `rwkvctl feedback` as JSON, which its type can decode."""
    found = node.cli("feedback", watch, *words, "--format", "json")
    msgspec.json.decode(found.stdout.encode(), type=FeedbackReply)
    return dict(json.loads(found.stdout))


def refused(node: Any, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and refusal of a command."""
    found = node.cli(*words, "--json", check=False)
    return found.returncode, dict(json.loads(found.stdout))


def item(reply: dict[str, Any], benchmark: str = "demo_arith") -> dict[str, Any]:
    """What a feedback says of a benchmark."""
    (found,) = (one for one in reply["items"] if one["benchmark"] == benchmark)
    return dict(found)


def stored_events(node: Any, kind: str = "feedback") -> list[tuple[str, str]]:
    """(what, checkpoint) of each stored event, read from the store's file."""
    with closing(sqlite3.connect(f"file:{node.home / 'store.sqlite'}?mode=ro", uri=True)) as db:
        found = [
            json.loads(data) for (data,) in db.execute("SELECT data FROM event WHERE kind = ? ORDER BY seq", [kind])
        ]
    return [(one["what"], one["checkpoint"]) for one in found]


def until_written(node: Any, *names: str) -> None:
    """Until the feedback on these checkpoints is written."""
    wanted = {("done", name) for name in names}
    node.until(lambda: wanted <= set(stored_events(node)), f"the feedback on {names} is written")


class Verdicts:
    """The samples of a job, one a row, or of some of its rows."""

    def __init__(self, node: Any, job: str, rows: Collection[int] | None = None) -> None:
        self.samples = [one for one in node.samples(job) if rows is None or one["row"] in rows]
        self.right = {one["row"] for one in self.samples if one["value"] == 1}
        self.rows = {one["row"] for one in self.samples}
        assert len(self.rows) == len(self.samples)

    @property
    def wrong(self) -> set[int]:
        return self.rows - self.right

    @property
    def value(self) -> float:
        return len(self.right) / len(self.rows)

    @property
    def truncated(self) -> int:
        return sum(one["stages"][-1]["stop"] == "length" for one in self.samples)

    @property
    def reasons(self) -> Counter[str]:
        return Counter(one["reason"] for one in self.samples)

    @property
    def wilson(self) -> tuple[float, float]:
        """The ends of the 95 % interval of Wilson's score."""
        n, p, z = len(self.rows), self.value, 1.959963984540054
        middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)

    def lost_from(self, other: "Verdicts") -> set[int]:
        return self.wrong & other.right


def mcnemar(a: Verdicts, b: Verdicts) -> float:
    """The exact p of two checkpoints' being equally good, from the binomial distribution."""
    n, fewer = len(a.right ^ b.right), min(len(a.right - b.right), len(b.right - a.right))
    return float(min(Fraction(1), 2 * Fraction(sum(math.comb(n, k) for k in range(fewer + 1)), 2**n)))


def holm(ps: Sequence[float]) -> list[float]:
    """The p values adjusted for their number by Holm's method, by definition: of each, the highest of all that are no
    higher."""
    ranks = sorted(ps)
    return [min(1.0, max((len(ps) - rank) * q for rank, q in enumerate(ranks) if q <= p)) for p in ps]
