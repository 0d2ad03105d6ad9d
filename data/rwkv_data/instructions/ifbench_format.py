"""IFBench's rules about the form of a response (allenai/IFBench, Apache-2.0): own code, the same verdicts.

Several are looser or stricter than their wording; the docstrings here say what is checked, as upstream.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise, zip_longest
from typing import Final

from rwkv_data.instructions import sentences, words
from rwkv_data.instructions.emoji import EMOJI
from rwkv_data.instructions.rule import InstructionRule

_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_AROUND_WORDS = string.punctuation + " "
_CLOSES = {")": "(", "]": "[", "}": "{"}
_SEPARATORS = ("/", "or", ",")


def parentheses(text: str) -> bool:
    """Whether brackets are nested five deep and the innermost is closed; a wrong closing bracket resets the count."""
    stack: list[str] = []
    deepest = 0
    for mark in text:
        if mark in "([{":
            stack.append(mark)
            deepest = max(deepest, len(stack))
        elif mark in _CLOSES and stack and stack[-1] == _CLOSES[mark]:
            stack.pop()
            if deepest >= 5:
                return True
        elif mark in _CLOSES:
            stack, deepest = [], 0
    return False


def quotes(text: str) -> bool:
    """Whether quotes of two kinds are nested and three levels are closed; an apostrophe counts as a quote."""
    stack: list[str] = []
    deepest = 0
    for mark in text:
        if stack and mark == stack[-1]:
            stack.pop()
            if deepest - len(stack) >= 3:
                return True
        elif mark in "\"'":
            stack.append(mark)
            deepest = max(deepest, len(stack))
    return False


def options(text: str, options: str) -> bool:
    """Whether the response is one of the options: exactly for a), b), c); otherwise ignoring case and outer marks."""
    separator = next((mark for mark in _SEPARATORS[:2] if mark in options), _SEPARATORS[2])
    choices = [choice.strip() for choice in options.split(separator)]
    if re.match(r"\W*[aA]\W*[bB]\W*[cC]", options):
        return text in choices
    return text.strip(_AROUND_WORDS).lower() in {choice.strip(_AROUND_WORDS).lower() for choice in choices}


def newline(text: str) -> bool:
    """Whether there are as many lines that are not blank as words."""
    text = text.translate(_WITHOUT_PUNCTUATION).strip()
    return sum(map(bool, text.split("\n"))) == len(text.split())


def emoji(text: str) -> bool:
    """Whether each sentence ends with an emoji, or the next one starts with one."""
    found = [sentence.translate(_WITHOUT_PUNCTUATION).strip() for sentence in sentences.split(text)]
    return all(_has_emoji(sentence, behind) for sentence, behind in zip_longest(found, found[1:], fillvalue=""))


def _has_emoji(sentence: str, behind: str) -> bool:
    """Whether one of the last two characters is an emoji: the last may be a joiner or a blank."""
    return bool(sentence) and (not EMOJI.isdisjoint(sentence[-2:]) or behind[:1] in EMOJI)


def line_indent(text: str) -> bool:
    """Whether each line is indented further than the one before."""
    depths = [len(line) - len(line.lstrip(" ")) for line in _without_blank_lines(text.split("\n"))]
    return all(before < behind for before, behind in pairwise(depths))


def _without_blank_lines(lines: list[str]) -> list[str]:
    """Remove blank lines as upstream does, which removes items from the list that it iterates over: the line after a
    blank one is not checked, and of equal blank lines the first is removed."""
    gone: Counter[str] = Counter()
    at = 0
    while at < len(lines):
        blank = not lines[at].strip()
        gone[lines[at]] += blank
        at += 2 if blank else 1
    kept = []
    for line in lines:
        if gone[line] > 0:
            gone[line] -= 1
        else:
            kept.append(line)
    return kept


def quote_unquote(text: str) -> bool:
    """Whether no quote directly follows another, and none is at the end."""
    joined = "".join(text.replace("'\"'", "").split())
    if '""' in joined:
        return False
    return not joined.strip(string.digits + string.punctuation.replace('"', "")).endswith('"')


def marked_list(text: str, sep: str) -> bool:
    """Whether the mark that replaces bullets occurs twice."""
    return text.count(sep) >= 2


def thesis(text: str) -> bool:
    """Whether text in HTML italics is followed by other text."""
    start = text.find("<i>") if "<i>" in text else text.find("<em>")
    if start < 0:
        return False
    text = text[start:]
    stop = text.find("</i>") if "</i>" in text else text.find("</em>")
    return stop >= 0 and bool(text[3:stop].strip()) and bool(text[stop + 4 :].strip())


def sub_bullets(text: str) -> bool:
    """Whether a `-` follows every `*` before the next one."""
    return all("-" in part for part in text.split("*")[1:])


def no_bullets_bullets(text: str) -> bool:
    """Whether there are two sentences, then two lines with a `*`; a blank line is allowed only before those lines, and
    no text after them."""
    count, bullets, telling = 0, 0, True
    for line in text.split("\n"):
        if line.strip().startswith("*"):
            if count < 2:
                return False
            telling = False
            bullets += 1
        elif telling:
            found = len(sentences.split(line.strip()))
            count, telling = count + found, found > 0
        else:
            return False
    return bullets >= 2


def title_case(text: str) -> bool:
    """Whether no word starts with a lower-case letter, among words whose further letters are of one case."""
    return not any(map(_is_small, words.tokens(text)))


def _is_small(word: str) -> bool:
    rest = word[1:]
    return word[0].islower() and (not rest or rest.isupper() or rest.islower())


def output_template(text: str) -> bool:
    """Whether the three headings of the template occur: My Answer, My Conclusion, Future Outlook."""
    return all(heading in text for heading in ("My Answer:", "My Conclusion:", "Future Outlook:"))


def no_whitespace(text: str) -> bool:
    """Whether the text holds no white space of any kind."""
    return not any(map(str.isspace, text))


RULES: Final[Mapping[str, InstructionRule]] = {
    "format:parentheses": parentheses,
    "format:quotes": quotes,
    "format:options": options,
    "format:newline": newline,
    "format:emoji": emoji,
    "format:line_indent": line_indent,
    "format:quote_unquote": quote_unquote,
    "format:list": marked_list,
    "format:thesis": thesis,
    "format:sub-bullets": sub_bullets,
    "format:no_bullets_bullets": no_bullets_bullets,
    "format:title_case": title_case,
    "format:output_template": output_template,
    "format:no_whitespace": no_whitespace,
}
