"""IFBench's 58 rules: for each, responses that follow it and responses that do not."""

import importlib.util
import string

import pytest

from rwkv_data.definition.answer import Answer
from rwkv_data.graders.ifeval import IFBENCH, grade
from rwkv_data.instructions.english_verbs import is_verb
from rwkv_data.instructions.ifbench import RULES
from rwkv_data.instructions.ifbench_lists import STOP_WORDS
from rwkv_data.instructions.rule import bound

NO_ARGUMENTS: dict[str, object] = {}
PALINDROMES = "level civic madam refer rotor kayak radar stats tenet Solos, reviver"
_AFRICA = (
    "Zimbabwe Zambia Uganda Tunisia Togo Tanzania Sudan South_Sudan Somalia Sierra_Leone Seychelles Senegal São_Tomé "
    "Rwanda Republic_of_the_Congo Nigeria Niger Namibia Mozambique Morocco Mauritius Mauritania Mali Malawi "
    "Madagascar Libya Liberia Lesotho Kenya Ivory_Coast Guinea-Bissau Guinea Ghana Gambia Gabon Ethiopia Eswatini "
    "Eritrea Equatorial_Guinea Egypt Djibouti Democratic_Republic Comoros Chad Central_African Cape_Verde Cameroon "
    "Burundi Burkina_Faso Botswana Benin Angola Algeria"
)
AFRICA = _AFRICA.split()
CAPITALS = (
    "Reykjavík, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin, "
    "Amsterdam, Warsaw, London, Brussels, Prague, Luxembourg, Paris, Vienna, Bratislava, Budapest, Vaduz, Chișinău, "
    "Bern, Ljubljana, Zagreb"
)
QUESTIONS = "\n\n".join(
    f"Question {n}: Who painted this{' very' * n} famous picture?\n"
    + "\n".join(f"{mark}) Painter {mark}" for mark in "ABCDE")
    for n in range(1, 5)
)
CITIES = "ID,Country,City,Year,Count\n" + "\n".join(f"{n},Peru,Lima,2020,{n}" for n in range(1, 8))
PRODUCTS = "ProductID,Category,Brand,Price,Stock\n" + "\n".join(f'{n},"Toys & Games",Acme,9,{n}' for n in range(1, 15))
STUDENTS = "\n".join(
    '"' + '"\t"'.join(row.split()) + '"' for row in ["StudentID Subject Grade Semester Score"] + ["1 Art A Fall 9"] * 3
)
MULTIPLE = {"keyword1": "one", "keyword2": "two", "keyword3": "three", "keyword4": "five", "keyword5": "seven"}
COUNTED = "One two TWO" + " three" * 3 + " five" * 5 + " seven" * 7
STORY = " ".join(f"{letter} is where a sentence starts." for letter in string.ascii_uppercase)
REQUEST = {"prompt_to_repeat": "Write a poem about the sea."}
SPAN = REQUEST | {"n_start": 8, "n_end": 11}

# rule, arguments, responses that follow it, responses that do not
CASES: list[tuple[str, dict[str, object], tuple[str, ...], tuple[str, ...]]] = [
    ("count:word_count_range", {"min_words": 2, "max_words": 3}, ("one two", "don't go"), ("one", "a b c d")),
    ("count:unique_word_count", {"N": 3}, ("a b c", "a, b. C"), ("a b B, a.",)),
    ("count:conjunctions", {"small_n": 2}, ("this and that, but", "And and"), ("and and and", "sandy butter")),
    ("count:person_names", {"N": 2}, ("Emma met Liam.",), ("Emma and Emma", "emma liam", "Emmanuel Liams")),
    ("count:numbers", {"N": 2}, ("7 and 1,000.5", "12 x3"), ("7", "1 2 3", "no digits")),
    ("count:punctuation", NO_ARGUMENTS, ("Wait; what?! No: yes, or? Well! So.", "a‽ .,!;:?"), (".,!?;:", "?!.,;:")),
    ("count:pronouns", {"N": 3}, ("She/her and they", "I gave it to him."), ("I saw a dog", "Item theory")),
    (
        "count:words_japanese",
        {"N": 2},
        ("one 東京 two ひらがな", "one 22 two ネコ!"),
        ("one two", "one 東京 two three"),
    ),
    ("count:keywords_multiple", MULTIPLE, (COUNTED,), (COUNTED + " one", "one two", COUNTED.replace("One", ""))),
    ("ratio:stop_words", {"percentage": 50}, ("red dog", "the dog", "We'll win big"), ("it is the dog", "...")),
    ("ratio:sentence_type", NO_ARGUMENTS, ("One. Two. Three?", "Just this!"), ("One. Two?", "One. Two. Three.")),
    ("ratio:sentence_balance", NO_ARGUMENTS, ("One. Two? Three!", "No mark"), ("One. Two?", "One. Two. Three!")),
    ("ratio:overlap", {"reference_text": "abcd", "percentage": 50}, ("abcx", "bcdx"), ("abcd", "xyz", "ab")),
    (
        "ratio:sentence_words",
        NO_ARGUMENTS,
        ("We ran. We sat. He did.", "Go to. Go in. Go up."),
        ("One. Two.", "One. Three. Four."),
    ),
    (
        "sentence:alliteration_increment",
        NO_ARGUMENTS,
        ("Some words. Big bears walk. Tall trees take time.",),
        ("Big bears. Big bees.", "Big bears. No."),
    ),
    (
        "sentence:keyword",
        {"word": "sea", "N": 2},
        ("First. The SEA is deep.",),
        ("The sea. Then land.", "One. Two seas.", "sea"),
    ),
    (
        "sentence:increment",
        {"small_n": 1},
        ("One. Two words. Now three words.", "Just one"),
        ("One. Two. Three.", "Two words. One."),
    ),
    ("words:alphabet", NO_ARGUMENTS, ("A big cat", "yes Zoe ate", '"m," n!'), ("a cat", "1 two", "...", "A big 1")),
    ("words:vowel", NO_ARGUMENTS, ("A red hen sits", "\nsky\n"), ("a e i o", "a\nb", "Unite so a")),
    ("words:consonants", NO_ARGUMENTS, ("Bright stars", "this and that"), ("a star", "one two")),
    ("words:palindrome", NO_ARGUMENTS, (PALINDROMES, "kayak " * 10), ("noon " * 20, "kayak " * 9)),
    ("words:prime_lengths", NO_ARGUMENTS, ("It has great", "to be, or"), ("This", "a to")),
    (
        "words:start_verb",
        NO_ARGUMENTS,
        ("Run home.", "Consider this", "Making tea", "Was it?", "Modernized"),
        ("The run", '"Run"', "Cat", "King"),
    ),
    ("words:repeats", {"small_n": 2}, ("a b A c", "one two"), ("a a, A!",)),
    ("words:odd_even_syllables", NO_ARGUMENTS, ("the water is coming", "dog"), ("the dog", "water coming")),
    (
        "words:last_first",
        NO_ARGUMENTS,
        ("I like tea. Tea is hot! Hot drinks.", "One"),
        ("I like tea. It is hot.", "One. ... Two."),
    ),
    (
        "words:paragraph_last_first",
        NO_ARGUMENTS,
        ("Tea is tea.\n\nHot is not Hot", "tea"),
        ("Tea is hot", "tea\nhot water"),
    ),
    ("words:no_consecutive", NO_ARGUMENTS, ("one big cat", "a b a b"), ("big, Bad wolf",)),
    (
        "words:keywords_specific_position",
        {"keyword": "sea", "n": 2, "m": 3},
        ("One. By the sea.", "One. By (the) SEA"),
        ("By the sea.", "One. By sea", "A. B the see"),
    ),
    (
        "words:words_position",
        {"keyword": "sea"},
        ("The sea is a sea too", "My sea or sea now!", "Sea sea sea"),
        ("sea the", "the sea is it.", "sea", "The sea."),
    ),
    ("format:parentheses", NO_ARGUMENTS, ("([{(<[x]>)}])", "((((( )"), ("((((x))))", "(((((", "((]((()))")),
    ("format:quotes", NO_ARGUMENTS, ('"a \'b "c" d\' e"', "'\"'x'\"'"), ("\"a 'b' c\"", "plain", '""""')),
    ("format:options", {"options": "yes/no/maybe"}, ("Yes", "maybe.", " NO "), ("yes no", "perhaps", "yes, of course")),
    ("format:options", {"options": "I know or I don't know"}, ("I don't know.", "i know"), ("know", "I know it")),
    ("format:options", {"options": "a), b), c), d)"}, ("a)", "d)"), ("a", "A)", " a)", "e)")),
    ("format:newline", NO_ARGUMENTS, ("one\ntwo\n\nthree.", "one"), ("one two", "one\ntwo three")),
    ("format:emoji", NO_ARGUMENTS, ("Hi there. 😀 Bye! ❤️", "Good 😀."), ("Hi there.", "Hi 😀. Bye.", "...")),
    ("format:line_indent", NO_ARGUMENTS, ("a\n b\n  c", "a\n\n b", "a"), ("a\nb", " a\nb", "a\n\n\n b")),
    (
        "format:quote_unquote",
        NO_ARGUMENTS,
        ('"Tea" is hot', "no quotes", "a '\"' mark"),
        ('"Tea" "hot" x', 'say "tea"', 'say "tea".'),
    ),
    ("format:list", {"sep": "!?!?"}, ("!?!? one\n!?!? two",), ("!?!? one", "- one\n- two")),
    (
        "format:thesis",
        NO_ARGUMENTS,
        ("<i>Tea is good.</i> It is.", "x <em>a</em> b"),
        ("Tea", "<i>Tea</i>", "<i> </i> x", "<i>Tea", "</i> <i>x"),
    ),
    ("format:sub-bullets", NO_ARGUMENTS, ("* a\n  - b\n* c\n  - d", "none"), ("* a\n* b\n - c", "* a")),
    (
        "format:no_bullets_bullets",
        NO_ARGUMENTS,
        ("One. Two.\n* a\n* b", "One.\nTwo.\n\n* a\n* b"),
        ("One.\n* a\n* b", "One. Two.\n* a", "One. Two.\n* a\n* b\nx", "One. Two.\n\nMore.\n* a\n* b"),
    ),
    (
        "format:title_case",
        NO_ARGUMENTS,
        ("The Sea Is Big", "A 1st NASA McDonald", "iPhone"),
        ("The sea", "a Sea", "The sEA"),
    ),
    (
        "format:output_template",
        NO_ARGUMENTS,
        ("My Answer: a My Conclusion: b Future Outlook: c",),
        ("My Answer: a", "my answer: my conclusion: future outlook:"),
    ),
    ("format:no_whitespace", NO_ARGUMENTS, ("Oneword", "a-b"), ("a b", "a\n", "a\u00a0b")),
    (
        "custom:multiples",
        NO_ARGUMENTS,
        ("14, 21, 28, 35, 42, 49", "14,21,28,35,42,49"),
        ("7 14 21 28 35 42 49", "14 21"),
    ),
    (
        "custom:mcq_count_length",
        NO_ARGUMENTS,
        (QUESTIONS,),
        ("Here: " + QUESTIONS, QUESTIONS.replace("E) Painter E", ""), QUESTIONS.replace(" very", ""), "Question 1: a"),
    ),
    (
        "custom:reverse_newline",
        NO_ARGUMENTS,
        ("\n".join(AFRICA), "Here:\n\n" + "\n".join(f"- {name}" for name in AFRICA)),
        ("\n".join(AFRICA[::-1]), "\n".join(AFRICA[:51]), "Kenya"),
    ),
    ("custom:word_reverse", NO_ARGUMENTS, ("eagle bald the is it.",), ("The bald eagle", "eagle")),
    ("custom:character_reverse", NO_ARGUMENTS, (".elgae dlab eht si tI",), ("It is the bald eagle.",)),
    (
        "custom:sentence_alphabet",
        NO_ARGUMENTS,
        (STORY,),
        (STORY.replace("Z is where a sentence starts.", ""), STORY.replace("B is", "It is")),
    ),
    (
        "custom:european_capitals_sort",
        NO_ARGUMENTS,
        (CAPITALS, CAPITALS + ", "),
        ("Oslo, Helsinki", CAPITALS.replace("Oslo, ", "")),
    ),
    (
        "custom:csv_city",
        NO_ARGUMENTS,
        (CITIES,),
        (CITIES + "\n8,Peru,Lima,2020,8", CITIES.replace("ID", "Id"), CITIES.replace(",7", ""), "x\ry"),
    ),
    (
        "custom:csv_special_character",
        NO_ARGUMENTS,
        (PRODUCTS,),
        (
            PRODUCTS.replace(" & ", " "),
            PRODUCTS.replace("Stock", "Store"),
            PRODUCTS + "\nx",
            PRODUCTS.replace(",Acme", ""),
        ),
    ),
    (
        "custom:csv_quotes",
        NO_ARGUMENTS,
        (STUDENTS,),
        (
            STUDENTS.replace('"Art"', "Art"),
            STUDENTS.replace("\t", ","),
            STUDENTS + "\nx",
            STUDENTS.replace('"Art"', ""),
        ),
    ),
    (
        "custom:date_format_list",
        NO_ARGUMENTS,
        ("1796-04-12, 1815-06-18", "1800-06-14"),
        ("1815-6-18", "1815-06-31", "1700-01-01", "1815-13-01", "1815-06-18.", ""),
    ),
    (
        "repeat:repeat_change",
        REQUEST,
        ("Compose a poem about the sea.", "Write\na poem about the sea."),
        ("Write a poem about the sea.", "Compose a poem"),
    ),
    (
        "repeat:repeat_simple",
        NO_ARGUMENTS,
        ("Only output this sentence here, ignore all other requests.",),
        ("Only output this sentence.",),
    ),
    ("repeat:repeat_span", SPAN, ("POEM", "poem "), ("poems", "Write a poem about the sea.")),
]
WITHOUT_SYLLABLES = importlib.util.find_spec("syllapy") is None


@pytest.mark.parametrize(("name", "arguments", "good", "bad"), CASES, ids=[case[0] for case in CASES])
def test_rules(name: str, arguments: dict[str, object], good: tuple[str, ...], bad: tuple[str, ...]) -> None:
    if name == "words:odd_even_syllables" and WITHOUT_SYLLABLES:
        pytest.skip("needs syllapy: not installed")
    follows = bound(RULES[name], arguments)
    assert {text: follows(text) for text in (*good, *bad)} == dict.fromkeys(good, True) | dict.fromkeys(bad, False)


def test_every_rule_has_cases() -> None:
    assert {case[0] for case in CASES} == set(RULES)
    assert len(RULES) == 58


def test_a_step_of_zero_is_an_error_of_the_row() -> None:
    row = {"instruction_id_list": ["count:words_japanese"], "kwargs": [{"N": 0}]}
    assert grade(row, Answer("a b")).reason == "error"


def test_the_paper_scores_the_loose_verdict() -> None:
    row = {"instruction_id_list": ["format:no_whitespace"], "kwargs": [{}]}
    with IFBENCH.open() as verdict_of:
        verdict = verdict_of(row, Answer("Sure, here it is:\nOneword"))
    assert (verdict.value, verdict.parts["prompt_loose"]) == (0.0, 1.0)
    assert IFBENCH.name == "ifbench-v1"


@pytest.mark.parametrize(
    "word", ["Write", "wrote", "writing", "stopped", "carries", "Let's", "Ask", "Imagine", "Created"]
)
def test_verbs(word: str) -> None:
    assert is_verb(word)


@pytest.mark.parametrize("word", ["The", "Water", "In", "Thing", "Bed", "Beautiful", "1", "**"])
def test_other_words(word: str) -> None:
    assert not is_verb(word)


def test_stop_words_have_no_apostrophes() -> None:
    assert all(word.isalpha() for word in STOP_WORDS)
    assert len(STOP_WORDS) == 153
