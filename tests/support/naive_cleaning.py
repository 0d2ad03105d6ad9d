"""The rules of cleaning once more, by plain sets of plain texts over all pairs: slow, short, and without a hash."""

import re
import unicodedata
from collections.abc import Mapping, Sequence

Row = Mapping[str, object]


def words(text: str) -> list[str]:
    """Words of ASCII and of Chinese characters, each of which is one."""
    return re.findall(r"[一-龥]|[a-z0-9]+", unicodedata.normalize("NFKC", text).lower())


def grams(found: list[str], size: int) -> set[tuple[str, ...]]:
    return {tuple(found[at : at + size]) for at in range(len(found) - size + 1)}


def joined(found: list[str]) -> str:
    """Words in one, with a blank where two numbers meet."""
    text = ""
    for word in found:
        text += (" " if text and text[-1].isdigit() and word[0].isdigit() else "") + word
    return text


def forms(row: Row) -> list[list[str]]:
    question, choices = words(str(row["question"])), list(row.get("choices") or [])  # type: ignore[call-overload]
    found = [question]
    if choices:
        found.append(question + [word for choice in choices for word in words(choice)])
        lettered = [(letter, *words(choice)) for letter, choice in zip("abcdef", choices, strict=False)]
        found.append(question + [word for choice in lettered for word in choice])
    return found


def rule(problem: str, rows: Sequence[Row]) -> str:
    """The strongest rule by which a problem is near a benchmark; empty if it is not."""
    mine = words(problem)
    if not mine:
        return ""
    texts = [forms(row) for row in rows]
    if any(joined(mine) == joined(form) for row in rows for form in forms(row)):
        return "equal"
    if len(mine) >= 8 and any(sorted(mine) == sorted(of_row[0]) for of_row in texts):
        return "same-words"
    if any(grams(mine, 13) & grams(text, 13) for of_row in texts for text in of_row):
        return "13-gram"
    eights = grams(mine, 8)
    shared = [len(eights & set().union(*(grams(text, 8) for text in of_row))) for of_row in texts]
    return "8-grams" if eights and any(2 * count >= len(eights) for count in shared) else ""


def near(one: str, other: str) -> bool:
    mine, theirs = grams(words(one), 5), grams(words(other), 5)
    return bool(mine | theirs) and len(mine & theirs) / len(mine | theirs) >= 0.8


def equal(one: str, other: str) -> bool:
    mine, theirs = words(one), words(other)
    same_signs = re.findall(r"[-+*/]", one) == re.findall(r"[-+*/]", other) if len(mine) < 5 else True
    return bool(mine) and joined(mine) == joined(theirs) and same_signs


def clean(problems: Sequence[str], benchmarks: Sequence[Sequence[Row]]) -> tuple[list[list[str]], list[int]]:
    """Of each problem the rule for each benchmark, and the earlier problem that it repeats, or -1."""
    rules = [[rule(problem, rows) for rows in benchmarks] for problem in problems]
    staying: list[int] = []
    of = []
    for number, problem in enumerate(problems):
        first = -1
        if not any(rules[number]):
            same = [one for one in staying if equal(problem, problems[one])]
            alike = [one for one in staying if near(problem, problems[one])]
            first = next(iter(same + alike), -1)
            staying += [number] if first < 0 else []
        of.append(first)
    return rules, of
