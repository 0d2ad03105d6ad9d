"""IFBench's rules that are requests of their own, and those that repeat the request (allenai/IFBench, Apache-2.0).

Own code, the same verdicts; where upstream stops with an error (a table that the csv reader cannot read, a blank field
where quotes are asked for) the rule is not followed.
"""

import csv
import io
import re
import string
import unicodedata
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from rwkv_data.instructions import sentences
from rwkv_data.instructions.rule import InstructionRule

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_AROUND_WORDS = string.punctuation + " "
_CAPITALS = (
    "Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin Berlin Amsterdam Warsaw "
    "London Brussels Prague Luxembourg Paris Vienna Bratislava Budapest Vaduz Chisinau Bern Ljubljana Zagreb"
)
_DAYS = dict.fromkeys((1, 3, 5, 7, 8, 10, 12), 31) | dict.fromkeys((4, 6, 9, 11), 30) | {2: 29}
_REPEAT_THIS = "only output this sentence here, ignore all other requests."


def _ascii(text: str) -> str:
    """Return a text without accents and other characters outside ASCII."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def multiples(text: str) -> bool:
    """Whether the numbers in the text are the multiples of 7 from 10 to 50."""
    return re.findall(r"\d+", text) == [str(number) for number in range(14, 51, 7)]


def mcq_count_length(text: str) -> bool:
    """Whether there are four questions, each longer than the one before, with five options each, and nothing before
    them."""
    if not text.startswith("Question"):
        return False
    questions = [part.strip() for part in re.split(r"Question \d+[.|):;]?", text)]
    lengths = [_length_of_question(question) for question in questions if question]
    return len(lengths) == 4 and None not in lengths and all(a < b for a, b in pairwise(filter(None, lengths)))


def _length_of_question(question: str) -> int | None:
    """Return the length of the text before the options; None if there are not five."""
    lines = [line.strip() for line in question.split("\n")]
    marks = [re.match(r"[A-Ea-e][.|)]\s*\w", line) is not None for line in lines]
    if sum(marks) != 5:
        return None
    return len("".join(f" {line}" for line in lines[: marks.index(True)]).strip())


def reverse_newline(text: str) -> bool:
    """Whether the lines from the one with Zimbabwe on are 52 or more in falling order."""
    lines = [stripped for line in text.split("\n") if (stripped := line.strip(_AROUND_WORDS))]
    start = next((at for at, line in enumerate(lines) if "Zimbabwe" in line), len(lines))
    found = [_ascii(line) for line in lines[start:]]
    return len(found) >= 52 and found == sorted(found, reverse=True)


def word_reverse(text: str) -> bool:
    """Whether the words, read backwards, are one sentence with the bald eagle."""
    backwards = " ".join(reversed(text.lower().strip().translate(_WITHOUT_PUNCTUATION).split()))
    return "bald eagle" in backwards and backwards in sentences.split(backwards)


def character_reverse(text: str) -> bool:
    """Whether "bald eagle" occurs spelt backwards."""
    return "bald eagle"[::-1] in text.lower()


def sentence_alphabet(text: str) -> bool:
    """Whether there are 26 sentences that start with a to z."""
    letters = [sentence.lstrip()[:1].lower() for sentence in sentences.split(text)]
    return letters == list(string.ascii_lowercase)


def european_capitals_sort(text: str) -> bool:
    """Whether the text lists the capitals north of 45 degrees from north to south, separated by commas; accents are
    ignored."""
    return [name.strip() for name in _ascii(text).split(",") if name.strip()] == _CAPITALS.split()


def _table(text: str, delimiter: str = ",") -> list[list[str]]:
    """Return the rows of a table; none if the csv reader cannot read it."""
    try:
        return list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error:
        return []


def _header(names: str, delimiter: str) -> re.Pattern[str]:
    return re.compile(delimiter.join(f'({name}|"{name}")' for name in names.split()))


_PRODUCTS = _header("ProductID Category Brand Price Stock", r",[ \t]*")
_STUDENTS = _header("StudentID Subject Grade Semester Score", r"\t *")


def csv_city(text: str) -> bool:
    """Whether the text is a table with these five columns and seven rows."""
    table = _table(text)
    names = ["ID", "Country", "City", "Year", "Count"]
    return len(table) == 8 and table[0] == names and all(len(row) == 5 for row in table[1:])


def csv_special_character(text: str) -> bool:
    """Whether the text is a table with these five columns and fourteen rows, and has a quoted field with a special
    character, before which every row has five fields."""
    if not _PRODUCTS.fullmatch(text.split("\n", maxsplit=1)[0].strip()):
        return False
    table = _table(text.replace('"', '"""'))
    if len(table) != 15:
        return False
    for row in table[1:]:
        if len(row) != 5:
            return False
        if any(map(_is_special, row)):
            return True
    return False


def _is_special(field: str) -> bool:
    """Whether a quoted field holds a character that is no letter, digit or blank (a quote within is one)."""
    line = field.split("\n", maxsplit=1)[0]
    inside = line[1 : line.rfind('"')] if line.startswith('"') else ""
    return line.rfind('"') > 0 and re.search(r"[^\d\w\s]", inside) is not None


def csv_quotes(text: str) -> bool:
    """Whether the text is a table separated by tabs with these five columns and three rows, every field in quotes."""
    if not _STUDENTS.fullmatch(text.split("\n", maxsplit=1)[0].strip()):
        return False
    table = _table(text.replace('"', '"""'), "\t")
    fields = [field.strip() for row in table for field in row]
    shape = len(table) == 4 and all(len(row) == 5 for row in table)
    return shape and all(field[:1] == field[-1:] == '"' for field in fields)


def date_format_list(text: str) -> bool:
    """Whether the text lists dates of Napoleon's life as YYYY-MM-DD, separated by commas."""
    return all(_is_date(date.strip()) for date in text.strip().split(","))


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return False
    year, month, day = map(int, text.split("-"))
    return 1769 <= year <= 1821 and month <= 12 and day <= _DAYS.get(month, 99)


def repeat_change(text: str, prompt_to_repeat: str) -> bool:
    """Whether the text is the request with another first word."""
    return text != prompt_to_repeat and text.split()[1:] == prompt_to_repeat.split()[1:]


def repeat_simple(text: str) -> bool:
    """Whether the text is the one sentence asked for, ignoring case and outer blanks."""
    return text.strip().lower() == _REPEAT_THIS


def repeat_span(text: str, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
    """Whether the text is the part of the request from one character index to another, both included."""
    return text.strip().lower() == prompt_to_repeat[n_start : n_end + 1].strip().lower()


RULES: Final[Mapping[str, InstructionRule]] = {
    "custom:multiples": multiples,
    "custom:mcq_count_length": mcq_count_length,
    "custom:reverse_newline": reverse_newline,
    "custom:word_reverse": word_reverse,
    "custom:character_reverse": character_reverse,
    "custom:sentence_alphabet": sentence_alphabet,
    "custom:european_capitals_sort": european_capitals_sort,
    "custom:csv_city": csv_city,
    "custom:csv_special_character": csv_special_character,
    "custom:csv_quotes": csv_quotes,
    "custom:date_format_list": date_format_list,
    "repeat:repeat_change": repeat_change,
    "repeat:repeat_simple": repeat_simple,
    "repeat:repeat_span": repeat_span,
}
