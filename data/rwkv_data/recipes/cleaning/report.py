"""What cleaning found, for the file of dropped rows, for programs, and for people."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rwkv_data.recipes.cleaning.checked_benchmarks import NOT_PREPARED, CheckedBenchmarks
from rwkv_data.recipes.cleaning.clean import Cleaned
from rwkv_data.recipes.cleaning.near_duplicates import similarity
from rwkv_data.recipes.cleaning.overlap import Match
from rwkv_data.recipes.cleaning.rules import LONG_GRAM, RULES, SHORT_GRAM

EXAMPLES: Final = 10
"""Dropped rows that are shown; all of them are in the file beside the clean one."""
MOST_PHRASES: Final = 5
FEWEST_ROWS: Final = 5
"""A run of words by which fewer rows were dropped is not worth a line."""
_WIDTHS: Final = {"equal": LONG_GRAM, "same-words": LONG_GRAM, "13-gram": LONG_GRAM, "8-grams": SHORT_GRAM}
"""How many words are shown of what a problem and a row have in common."""

Entry = dict[str, Any]


def entries(cleaned: Cleaned, lines: Sequence[int]) -> Iterator[Entry]:
    """Yield what is to be said of each dropped row, in order; `lines` says where each row stands in its file."""
    for problem, matches in cleaned.by_problem():
        place = {"line": int(lines[problem])}
        yield place | (_near(cleaned, matches) if matches else _duplicate(cleaned, lines, problem))


def _near(cleaned: Cleaned, matches: list[Match]) -> Entry:
    """The strongest match, and the other benchmarks that the row is near."""
    best, *others = sorted(matches, key=lambda match: match.rule)
    index = cleaned.indexes[best.benchmark]
    words = cleaned.words(best.problem).split()
    gram = " ".join(words[best.start : best.start + _WIDTHS[RULES[best.rule]]])
    entry: Entry = {"reason": "benchmark", "rule": RULES[best.rule]} | _row(cleaned, best)
    entry |= {"gram": None if index.private else gram, "word": best.start, "rows_with_it": best.held_by}
    if RULES[best.rule] == "8-grams":
        entry |= {"shared": best.shared, "of": best.total}
    return entry | {"also": [_row(cleaned, match) | {"rule": RULES[match.rule]} for match in others]}


def _row(cleaned: Cleaned, match: Match) -> Entry:
    index = cleaned.indexes[match.benchmark]
    return {"benchmark": index.name, "row": index.row_name(match.row), "index": match.row}


def _duplicate(cleaned: Cleaned, lines: Sequence[int], problem: int) -> Entry:
    first = int(cleaned.duplicates.of[problem])
    alike = similarity(cleaned.words(problem), cleaned.words(first))
    rule = "equal" if cleaned.is_equal(problem, first) else "near"
    return {"reason": "duplicate", "rule": rule, "of_line": int(lines[first]), "similarity": round(alike, 4)}


def json_line(entry: Entry) -> bytes:
    """Return an entry as a line of the file of dropped rows."""
    return json.dumps(entry, ensure_ascii=False).encode(errors="replace") + b"\n"


@dataclass(slots=True)
class Summary:
    """Counts over all entries. A row that is near several benchmarks counts for each of them."""

    file: str
    rows: int
    compared_in_part: int
    without_words: int
    checked: CheckedBenchmarks
    near: int = 0
    duplicates: Counter[str] = field(default_factory=Counter)
    rules: dict[str, Counter[str]] = field(default_factory=dict)
    phrases: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    examples: list[Entry] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    @property
    def stay(self) -> int:
        """How many rows are neither near a benchmark nor a duplicate."""
        return self.rows - self.near - self.duplicates.total()

    def add(self, entry: Entry) -> None:
        """Count a row that is removed, and keep it as an example if there are few so far."""
        if len(self.examples) < EXAMPLES:
            self.examples.append(entry)
        if entry["reason"] == "duplicate":
            self.duplicates[entry["rule"]] += 1
            return
        self.near += 1
        for one in (entry, *entry["also"]):
            self.rules.setdefault(one["benchmark"], Counter())[one["rule"]] += 1
        if entry["gram"] and entry["rule"] in {"13-gram", "8-grams"}:
            self.phrases[entry["benchmark"], entry["gram"], entry["rows_with_it"]] += 1

    def plain(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        checked = self.checked
        return {
            "file": self.file,
            "rows": self.rows,
            "stay": self.stay,
            "near_benchmarks": self.near,
            "duplicates": {rule: self.duplicates[rule] for rule in ("equal", "near")},
            "benchmarks": {name: {rule: counts[rule] for rule in RULES} for name, counts in self._by_count()},
            "phrases": [
                {"benchmark": name, "gram": gram, "rows_with_it": held_by, "dropped": dropped}
                for (name, gram, held_by), dropped in self._common_phrases()
            ],
            "without_words": self.without_words,
            "compared_in_part": self.compared_in_part,
            "checked": {index.name: len(index.words) for index in checked.indexes},
            "in_part": {name: {"rows": have, "of": whole} for name, (have, whole) in checked.in_part.items()},
            "not_checked": checked.not_checked,
            "examples": self.examples,
            "written": self.written,
        }

    def lines(self) -> list[str]:
        """Return the summary for people."""
        return [self._headline(), *self._table(), *self._notes(), *self._shown(), *self._checked(), *self._written()]

    def _headline(self) -> str:
        per = ", ".join(f"{name} {counts.total():,}" for name, counts in self._by_count())
        near = f"{self.near:,} near benchmarks" + (f" ({per})" if per else "")
        repeated = _counted(self.duplicates.total(), "duplicate")
        return f"{self.stay:,} of {_counted(self.rows, 'row')} stay: {near}, {repeated}"

    def _table(self) -> list[str]:
        if not self.rules:
            return []
        rows = [
            [name, *(f"{counts[rule]:,}" if counts[rule] else "" for rule in RULES)]
            for name, counts in self._by_count()
        ]
        return ["", *aligned(["benchmark", *RULES], rows)]

    def _notes(self) -> Iterator[str]:
        for (name, gram, held_by), dropped in self._common_phrases():
            whose = f"{_counted(held_by, 'row')} of {name}"
            yield f"{_counted(dropped, 'row')} by the words {gram!r} ({whose}): look whether it is a common phrase"
        if self.without_words:
            yield f"{_counted(self.without_words, 'row')} without a word that could be compared: they stay"
        if self.compared_in_part:
            yield f"{_counted(self.compared_in_part, 'row')} with more possible duplicates than were compared"

    def _shown(self) -> Iterator[str]:
        if not self.examples:
            return
        yield ""
        yield from (f"{self.file}:{entry['line']}  {_said(entry)}" for entry in self.examples)
        if more := self.rows - self.stay - len(self.examples):
            yield f"and {more:,} more"
        yield ""

    def _checked(self) -> Iterator[str]:
        reasons = self.checked.not_checked
        yield f"checked: {', '.join(index.name for index in self.checked.indexes) or 'no benchmark'}"
        if parts := [f"{name} ({have:,} of {whole:,} rows)" for name, (have, whole) in self.checked.in_part.items()]:
            yield f"checked in part, because not all rows are prepared: {', '.join(parts)}"
        if missing := [name for name, why in reasons.items() if why == NOT_PREPARED]:
            yield f"not checked, because not prepared: {', '.join(missing)}"
        yield from (f"not checked: {name}: {why}" for name, why in reasons.items() if why != NOT_PREPARED)

    def _written(self) -> Iterator[str]:
        if self.written:
            yield f"wrote {' and '.join(self.written)}"

    def _by_count(self) -> list[tuple[str, Counter[str]]]:
        return sorted(self.rules.items(), key=lambda item: (-item[1].total(), item[0]))

    def _common_phrases(self) -> list[tuple[tuple[str, str, int], int]]:
        return [found for found in self.phrases.most_common(MOST_PHRASES) if found[1] >= FEWEST_ROWS]


def aligned(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the first column to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in (titles, *rows)
    ]


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def _said(entry: Entry) -> str:
    if entry["reason"] == "duplicate":
        same = "equal to" if entry["rule"] == "equal" else f"similarity {entry['similarity']:.2f} with"
        return f"{same} line {entry['of_line']}"
    share = f" ({entry['shared']} of {entry['of']})" if entry["rule"] == "8-grams" else ""
    gram = "" if entry["gram"] is None else f"  {entry['gram']!r}"
    return f"{entry['benchmark']} {entry['row']}  {entry['rule']}{share}{gram}"
