"""Few-shot examples: which worked examples precede a question, and how they are rendered."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.stage import Row

Pick = Literal["first", "sampled"]


def _nothing(_row: Row) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShot:
    """Few-shot examples before the question: `before(row)`, then the examples and the prompt, joined by `between`.

    Examples come from the benchmark's pool (`data prepare` stores it beside the rows) or, where `fixed` is not empty,
    are those texts. `pick` "first" takes the pool's first ones; "sampled" draws them for each row from one stream over
    all rows in order, as lm-evaluation-harness does, so a row's examples depend on the rows before it: the stream is
    replayed from the first row whatever part is asked. `by` names a field that an example must share with the row.
    `same_split`: the pool holds the rows themselves, and a row is never its own example.
    """

    count: int
    example: Callable[[Row], str]
    before: Callable[[Row], str] = _nothing
    between: str = "\n\n"
    pick: Pick = "first"
    seed: int = 1234
    by: str = ""
    same_split: bool = False
    fixed: tuple[str, ...] = ()

    @property
    def needs_pool(self) -> bool:
        """Whether the examples come from the prepared pool."""
        return self.count > 0 and not self.fixed

    @property
    def goes_by_order(self) -> bool:
        """Whether a row's examples depend on the rows before it, asked or not."""
        return self.needs_pool and self.pick == "sampled"

    def configuration(self) -> dict[str, Any]:
        """Return what enters the generation key beside the profile; the caller adds the pool's sha256."""
        sampled = {"seed": self.seed} if self.pick == "sampled" else {}
        return {"count": self.count, "pick": self.pick, "by": self.by, **sampled}

    def attach(self, rows: Sequence[Row], pool: Sequence[Row]) -> list[Row]:
        """Return the rows, each with its examples under "shots". Raises SettingError if the pool has too few."""
        if not self.count:
            return list(rows)
        if self.fixed:
            return [{**row, "shots": list(self.fixed[: self.count])} for row in rows]
        stream = random.Random(self.seed)
        pools = self._by_group(pool)
        return [{**row, "shots": self._texts(row, pools, stream)} for row in rows]

    def prompt(self, row: Row, question: str) -> str:
        """Return the whole prompt of a row that has its examples: examples and question, joined by `between`."""
        return self.before(row) + self.between.join([*row.get("shots", ()), question])

    def _by_group(self, pool: Sequence[Row]) -> dict[str, list[Row]]:
        groups: dict[str, list[Row]] = {}
        for row in pool:
            groups.setdefault(str(row.get(self.by, "")), []).append(row)
        return groups

    def _texts(self, row: Row, pools: dict[str, list[Row]], stream: random.Random) -> list[str]:
        group = str(row.get(self.by, ""))
        pool = pools.get(group, [])
        # One more than needed, so that enough are left when the row itself is among them.
        wanted = self.count + 1 if self.same_split else self.count
        if len(pool) < wanted:
            of = f" for {self.by} {group!r}" if self.by else ""
            raise SettingError(f"{self.count} examples are asked for and {len(pool)} are prepared{of}")
        found = pool[:wanted] if self.pick == "first" else stream.sample(pool, wanted)
        return [self.example(example) for example in found if not (self.same_split and example == row)][: self.count]
