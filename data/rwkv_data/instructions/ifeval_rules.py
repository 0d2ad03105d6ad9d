"""The 25 rules of IFEval (Zhou et al. 2023, arXiv 2311.07911; google-research/instruction_following_eval, Apache-2.0).

Own code; the verdicts are those of the checks as lm_eval 0.4.13 runs them, but for this:

- Keywords, forbidden words, section marks and postscript marks are plain text. Upstream puts them into patterns as
  they are; no row of the published set holds a character for which that makes a difference.
- Upstream replaces a letter outside a-z by one drawn at random (two rows ask for `#` and `!`), and a paragraph number
  beyond the paragraphs as well; here the row is followed literally.
- Languages are detected repeatably (see `language`).
- JSON nested too deeply to be read is no JSON; upstream fails on it.

Some checks are looser or stricter than their wording, as upstream: a `-` at the start of any line is a bullet, a
keyword counts inside longer words.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from rwkv_data.instructions import sentences, words
from rwkv_data.instructions.language import is_in
from rwkv_data.instructions.rule import InstructionRule, Relation, compared


def existence(text: str, keywords: list[str]) -> bool:
    """Whether every keyword occurs, in any case."""
    return all(_occurrences(keyword, text) for keyword in keywords)


def frequency(text: str, keyword: str, frequency: int, relation: Relation) -> bool:
    """Whether the number of occurrences of a keyword is as asked."""
    return compared(_occurrences(keyword.strip(), text), relation, frequency)


def _occurrences(keyword: str, text: str) -> int:
    return len(re.findall(re.escape(keyword), text, re.IGNORECASE))


def forbidden_words(text: str, forbidden_words: list[str]) -> bool:
    """Whether none of the words occurs."""
    return not any(re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) for word in forbidden_words)


def letter_frequency(text: str, letter: str, let_frequency: int, let_relation: Relation) -> bool:
    """Whether the number of occurrences of a letter, in any case, is as asked."""
    return compared(text.lower().count(letter.strip().lower()), let_relation, let_frequency)


def response_language(text: str, language: str) -> bool:
    """Whether the response is in a language; one whose language cannot be detected counts as being in it."""
    return is_in(text, language)


def number_sentences(text: str, num_sentences: int, relation: Relation) -> bool:
    """Whether the number of sentences is as asked."""
    return compared(len(sentences.split(text)), relation, num_sentences)


def number_words(text: str, num_words: int, relation: Relation) -> bool:
    """Whether the number of words is as asked."""
    return compared(len(words.runs(text)), relation, num_words)


def number_paragraphs(text: str, num_paragraphs: int) -> bool:
    """Whether there are exactly so many paragraphs between `***`; only the first and the last may be blank, and then do
    not count."""
    filled = [bool(part.strip()) for part in text.split("***")]
    if not all(filled[1:-1]):
        return False
    return sum(filled) == num_paragraphs


def nth_paragraph_first_word(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """Whether there are exactly so many paragraphs between blank lines, and the nth starts with this word."""
    paragraphs = text.split("\n\n")
    filled = sum(bool(paragraph.strip()) for paragraph in paragraphs)
    if filled != num_paragraphs or not 1 <= nth_paragraph <= filled:
        return False
    start = paragraphs[nth_paragraph - 1].split()
    if not start:
        return False
    word = start[0].lstrip("'").lstrip('"')
    return re.split(r"[.,?!'\"]", word, maxsplit=1)[0].lower() == first_word.lower()


def number_placeholders(text: str, num_placeholders: int) -> bool:
    """Whether there are at least so many `[placeholders]`, each within a line."""
    return sum(map(_placeholders, text.split("\n"))) >= num_placeholders


def _placeholders(line: str) -> int:
    count = at = 0
    while (start := line.find("[", at)) >= 0 and (at := line.find("]", start) + 1) > 0:
        count += 1
    return count


def postscript(text: str, postscript_marker: str) -> bool:
    """Whether a postscript starts somewhere; blanks between the letters of the mark are allowed."""
    marker, lower = postscript_marker.strip(), text.lower()
    patterns = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    return re.search(patterns.get(marker, re.escape(marker.lower())), lower) is not None


def number_bullet_lists(text: str, num_bullets: int) -> bool:
    """Whether exactly so many lines start with `-`, or with a `*` that no other `*` follows."""
    lines = [line.lstrip() for line in text.split("\n")]
    stars = at = 0
    while at < len(lines):
        alone = lines[at] == "*" and at + 1 < len(lines)  # such a bullet takes the next line as its text
        stars += alone or (lines[at][:1] == "*" and lines[at][1:2] not in {"", "*"})
        at += 2 if alone else 1
    return stars + sum(line.startswith("-") for line in lines) == num_bullets


def constrained_response(text: str) -> bool:
    """Whether one of the three fixed answers occurs."""
    return any(f"My answer is {choice}." in text for choice in ("yes", "no", "maybe"))


def number_highlighted_sections(text: str, num_highlights: int) -> bool:
    """Whether there are at least so many `*highlighted*` pieces within a line, not blank."""
    single = [found.strip("*") for found in re.findall(r"\*[^\n*]*\*", text)]
    double = [found[2:-2] for found in re.findall(r"\*\*[^\n*]*\*\*", text)]
    return sum(bool(inside.strip()) for inside in single + double) >= num_highlights


def multiple_sections(text: str, section_spliter: str, num_sections: int) -> bool:
    """Whether there are at least so many sections, each marked with a word and a number."""
    return len(re.findall(rf"{re.escape(section_spliter.strip())}\s?\d+", text)) >= num_sections


def json_format(text: str) -> bool:
    """Whether the whole response is JSON, with or without a fence around it."""
    text = text.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def title(text: str) -> bool:
    """Whether there is a title in `<<double angular brackets>>` within a line, not blank."""
    return any(map(_has_title, text.split("\n")))


def _has_title(line: str) -> bool:
    start, stop = line.find("<<"), line.rfind(">>")
    return 0 <= start < stop - 2 and bool(line[start : stop + 2].lstrip("<").rstrip(">").strip())


def two_responses(text: str) -> bool:
    """Whether there are two different responses with `******` between them."""
    parts = [part.strip() for part in text.split("******")]
    filled = [part for part in parts if part]
    return all(parts[1:-1]) and len(filled) == 2 and filled[0] != filled[1]


def repeat_prompt(text: str, prompt_to_repeat: str) -> bool:
    """Whether the response starts with the request, word for word."""
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


def end_checker(text: str, end_phrase: str) -> bool:
    """Whether the response ends with a phrase, ignoring case, outer blanks and quotation marks."""
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def capital_word_frequency(text: str, capital_frequency: int, capital_relation: Relation) -> bool:
    """Whether the number of words in capital letters is as asked."""
    return compared(sum(token.isupper() for token in words.tokens(text)), capital_relation, capital_frequency)


def english_capital(text: str) -> bool:
    """Whether the response is in English and has no lower-case letter."""
    return text.isupper() and is_in(text, "en")


def english_lowercase(text: str) -> bool:
    """Whether the response is in English and has no capital letter."""
    return text.islower() and is_in(text, "en")


def no_comma(text: str) -> bool:
    """Whether the response holds no comma."""
    return "," not in text


def quotation(text: str) -> bool:
    """Whether the whole response stands in double quotation marks."""
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


RULES: Final[Mapping[str, InstructionRule]] = {
    "keywords:existence": existence,
    "keywords:frequency": frequency,
    "keywords:forbidden_words": forbidden_words,
    "keywords:letter_frequency": letter_frequency,
    "language:response_language": response_language,
    "length_constraints:number_sentences": number_sentences,
    "length_constraints:number_paragraphs": number_paragraphs,
    "length_constraints:number_words": number_words,
    "length_constraints:nth_paragraph_first_word": nth_paragraph_first_word,
    "detectable_content:number_placeholders": number_placeholders,
    "detectable_content:postscript": postscript,
    "detectable_format:number_bullet_lists": number_bullet_lists,
    "detectable_format:constrained_response": constrained_response,
    "detectable_format:number_highlighted_sections": number_highlighted_sections,
    "detectable_format:multiple_sections": multiple_sections,
    "detectable_format:json_format": json_format,
    "detectable_format:title": title,
    "combination:two_responses": two_responses,
    "combination:repeat_prompt": repeat_prompt,
    "startend:end_checker": end_checker,
    "startend:quotation": quotation,
    "change_case:capital_word_frequency": capital_word_frequency,
    "change_case:english_capital": english_capital,
    "change_case:english_lowercase": english_lowercase,
    "punctuation:no_comma": no_comma,
}
