"""IFEval's 25 rules: for each, responses that follow it and responses that do not."""

import pytest
from effort import bounded

from rwkv_data.definition.errors import RowError
from rwkv_data.instructions import language
from rwkv_data.instructions.ifeval_rules import RULES as IFEVAL_RULES
from rwkv_data.instructions.instruction_rows import RULES
from rwkv_data.instructions.rule import bound

LEAST, LESS = "at least", "less than"
ENGLISH = "this is a plain english sentence about the weather and the garden"
GERMAN = "Das ist ein ganz gewöhnlicher deutscher Satz über das Wetter und den Garten."
THIRD = {"num_paragraphs": 3, "nth_paragraph": 2, "first_word": "then"}
SENTENCES = {"num_sentences": 3}

# rule, arguments, responses that follow it, responses that do not
CASES: list[tuple[str, dict[str, object], tuple[str, ...], tuple[str, ...]]] = [
    ("keywords:existence", {"keywords": ["sea", "C++"]}, ("The SEA in c++", "season C++"), ("the sea", "")),
    ("keywords:frequency", {"keyword": " sea ", "frequency": 2, "relation": LEAST}, ("sea SEAsons",), ("sea",)),
    ("keywords:frequency", {"keyword": "sea", "frequency": 2, "relation": LESS}, ("sea", ""), ("sea sea",)),
    ("keywords:forbidden_words", {"forbidden_words": ["sea"]}, ("season", "undersea"), ("a Sea.", "sea-bed")),
    ("keywords:letter_frequency", {"letter": "Q", "let_frequency": 2, "let_relation": LEAST}, ("qQ",), ("q",)),
    ("keywords:letter_frequency", {"letter": "#", "let_frequency": 2, "let_relation": LESS}, ("#",), ("# #",)),
    ("language:response_language", {"language": "de"}, (GERMAN, "123", "..."), (ENGLISH,)),
    (
        "length_constraints:number_sentences",
        SENTENCES | {"relation": LEAST},
        ("Ab. Cd! Do?",),
        ("A b. C", "Dr. Brown met me."),
    ),
    ("length_constraints:number_sentences", SENTENCES | {"relation": LESS}, ("A b. C",), ("No. Yes. No.",)),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 2},
        ("a\n***\nb", "***a***b***"),
        ("a", "a***b***c", "a******b"),
    ),
    (
        "length_constraints:number_words",
        {"num_words": 3, "relation": LEAST},
        ("one-two 3", "a_b c d"),
        ("one two", "- - -"),
    ),
    ("length_constraints:number_words", {"num_words": 3, "relation": LESS}, ("one two",), ("it's it",)),
    (
        "length_constraints:nth_paragraph_first_word",
        THIRD,
        ("a\n\nThen b\n\nc", 'a\n\n"Then!\n\nc'),
        ("Then\n\na\n\nb", "a\n\nThen", "a\n\nThence\n\nc", "\n\na\n\nThen\n\nc"),
    ),
    (
        "detectable_content:number_placeholders",
        {"num_placeholders": 2},
        ("[a] [b]", "[[a] ]]x[]"),
        ("[a]", "[a\n] [b]", "] ["),
    ),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, ("x p.p.s", "P. P. S y"), ("P.S.", "pps")),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, ("x\nP. S. y",), ("P.S", "none")),
    ("detectable_content:postscript", {"postscript_marker": "N.B."}, ("n.b. this",), ("nxbx",)),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 2},
        ("* a\n\n  - b", "*\n* a\n- b", "* a\n*b\n** c"),
        ("* a", "- a\n- b\n- c", "*", "** a\n* b"),
    ),
    (
        "detectable_format:constrained_response",
        {},
        ("Well. My answer is no.",),
        ("my answer is no.", "My answer is no"),
    ),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        ("*a* *b*", "**a** *b*"),
        ("*a*", "**a**", "* * * *", "*a\nb* **", "****"),
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Day", "num_sections": 2},
        ("Day 1 Day 2", "Day1\nDay 22"),
        ("Day 1", "day 1 day 2", "Day one Day two"),
    ),
    (
        "detectable_format:json_format",
        {},
        ('{"a": [1]}', "```json\n[1]\n```", "```1```", " null ", "```json {}"),
        ("{a: 1}", "", "[" * 100_000),
    ),
    ("detectable_format:title", {}, ("<<a>>", "x <<<a>>> y"), ("<a>", "<<>>", "<< >>", "<<a\n>>", ">><<")),
    (
        "combination:two_responses",
        {},
        ("a******b", "******a******b\n******"),
        ("a", "a******a", "a******b******c", "a******\n******b"),
    ),
    ("combination:repeat_prompt", {"prompt_to_repeat": " Say Hi. "}, ("say hi. Hi!",), ("I say hi.", "Say")),
    (
        "startend:end_checker",
        {"end_phrase": " The End. "},
        ("so. the END.", '"It is the end."\n'),
        ("The end", "The end. Yes."),
    ),
    ("startend:quotation", {}, ('"a"', '\n""'), ('"', '"a".', "'a'")),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": LEAST},
        ("I AM", "A-B 3D."),
        ("I am", "Ab (C)"),
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 1, "capital_relation": LESS},
        ("none here",),
        ("NONE",),
    ),
    ("change_case:english_capital", {}, (ENGLISH.upper(),), (ENGLISH, ENGLISH.title(), "123")),
    ("change_case:english_lowercase", {}, (ENGLISH,), (ENGLISH.upper(), GERMAN.lower())),
    ("punctuation:no_comma", {}, ("no comma；", "、"), ("a, b", ",")),
]


@pytest.mark.parametrize(("name", "arguments", "good", "bad"), CASES, ids=[case[0] for case in CASES])
def test_rules(name: str, arguments: dict[str, object], good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    follows = bound(IFEVAL_RULES[name], arguments)
    assert {text: follows(text) for text in (*good, *bad)} == dict.fromkeys(good, True) | dict.fromkeys(bad, False)


def test_every_rule_has_cases() -> None:
    assert {case[0] for case in CASES} == set(IFEVAL_RULES)
    assert len(IFEVAL_RULES) == 25


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("punctuation:no_comma", {"comma": 1}),
        ("length_constraints:number_words", {"num_words": 3}),
        ("length_constraints:number_words", {"num_words": 3, "relation": "at most"}),
        ("length_constraints:number_words", {"num_words": 2.5, "relation": "at least"}),
        ("length_constraints:number_words", {"num_words": True, "relation": "at least"}),
        ("keywords:existence", {"keywords": []}),
        ("keywords:existence", {"keywords": ["a", 1]}),
        ("startend:end_checker", {"end_phrase": 3}),
    ],
)
def test_arguments_that_do_not_fit(name: str, arguments: dict[str, object]) -> None:
    with pytest.raises(RowError):
        bound(RULES[name], arguments)


def test_whole_numbers_may_come_as_floats() -> None:
    assert bound(RULES["detectable_format:number_bullet_lists"], {"num_bullets": 1.0})("* a")


def test_languages_do_not_depend_on_what_was_asked_before() -> None:
    """langdetect without a fixed seed gives varying results for short texts like this one."""
    text, others = "ok bien", ("HELLO THERE", GERMAN, ENGLISH, "la casa de papel", "123")
    label = language.detect(text)
    for turn in range(20):
        language.detect(others[turn % len(others)])
        assert language.detect(text) == label
    assert language.detect("") is None
    assert language.is_in("12", "de")


HOSTILE = [
    "*",
    "(",
    "\n",
    "a ",
    "[",
    "<",
    ". ",
    "😀. ",
    '"',
    "' ",
    "` ",
    "Mr. ",
    "- ",
    "*\n",
    "J. K. ",
    "é",
    "\ud800",
    "1,",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_keeps_a_rule_busy(piece: str) -> None:
    """Run every rule on 100,000 hostile characters."""
    text = (piece * 100_000)[:100_000]
    for name, arguments in {case[0]: case[1] for case in CASES}.items():
        with bounded(name):
            bound(RULES[name], arguments)(text)
