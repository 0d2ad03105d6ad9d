r"""BIG-Bench Hard: the authors' files, and the rule by which an answer is right (Suzgun et al. 2022, arXiv 2210.09261).

    bbh/TASK.json           {"canary": "...", "examples": [{"input": "...", "target": "(A)"}, ...]}
    cot-prompts/TASK.txt    canary\n-----\ndescription\n\nQ: ..\nA: Let's think step by step.\n..\n\nQ: ..

Targets are letters in brackets, "yes", "True", "valid", numbers, sorted words, closing brackets. The answer is what the
completion announces last ("the answer is ..."). It is compared without regard to case, marks and blanks; an option may
be given by its letter or by its whole text, brackets and words with any blanks or commas between them. An answer that
names several options, or says which one it is not, names none (candidates).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, Final

from rwkv_data.definition import rows
from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.stage import Row
from rwkv_data.graders import candidates, extract
from rwkv_data.prepare.sources.raw import FILE

COMMIT: Final = "9ee07bd481feebf959a6b59d61ea57bdcf30964d"
ROOT: Final = f"https://raw.githubusercontent.com/suzgunmirac/BIG-Bench-Hard/{COMMIT}"
SHA256: Final = {
    "boolean_expressions": (
        "ea6c754ec005e2d3f2d085d349a740f593b5764f32ea4638ffed4cfc0061b12a",
        "685affba97425cdf3549d5d313ba876caed2fa7c8a4cf1ea7549faf22179609d",
    ),
    "causal_judgement": (
        "6e8bca44dd402008ed41c07a3d0a1d5e7b03db7001a7e002fcdf4c60985ea081",
        "14377e36cccb084b7d0fe73988d08696f7675d712b02d3ae1f5f7f12c77028ea",
    ),
    "date_understanding": (
        "0148d4ac5fca05b2f82373e5fef7208e15363b9c6079493034d77b3dab496bf5",
        "a0a13c392f689a1828f5f6ffb9dee3d44483794490da5d92f0e2a723787b1cfb",
    ),
    "disambiguation_qa": (
        "cf06df9ebf911b883671cb1b35d3fbd1a1c306b19b9e9a012407e596c85fe8c6",
        "794fd259297972a4c963a5d13a84dc221edde460de27fa5d8fd64299a2001597",
    ),
    "dyck_languages": (
        "3f9badedf15c2be1ce53d94fdf016299bb30ba231ef087ab9f51a7ed6d0bdc25",
        "b0836603007ec659ed685458647fb6d7543543304e7aca909b995d0c3aff22b2",
    ),
    "formal_fallacies": (
        "4c1adb664821157faade1d4153685403afcc02648f3c180a608a18f17f589629",
        "10c06cc362520e9b8dddfc4861e263ff668d228a52d958dcc69f09f1d224935a",
    ),
    "geometric_shapes": (
        "07be68a124420caa2ebc0b2c858ad79fc55c5c8806170e496e1e17ebfb11f31c",
        "f36d9893507eb518d84f388fb677dc0226c74a98873700de0b556548d65d3f76",
    ),
    "hyperbaton": (
        "b6d7f55c75f5d02f2987a4f3123802dfa093872089a56a334144aae8a7264fdc",
        "19898af91c35cb26bbdf5fdb6f6fb17e138677250332e2994005625ffb50b261",
    ),
    "logical_deduction_five_objects": (
        "d2df31394b903b7f0e085d42a69572a092987856eac076799017d70ef266fa8f",
        "4ed65246c0c1c4b0b4053d784181892b842bce19cf4358c976f34b1a434ef034",
    ),
    "logical_deduction_seven_objects": (
        "2896c7e3482eea318dd37bcc370d24ec3cc91e8374c1784287b5dbd38a529e33",
        "4ed65246c0c1c4b0b4053d784181892b842bce19cf4358c976f34b1a434ef034",
    ),
    "logical_deduction_three_objects": (
        "e590fae72e3a6041fbd23bd8ff6b74baf44ca563f6ba40a041c55e7b867c1681",
        "4ed65246c0c1c4b0b4053d784181892b842bce19cf4358c976f34b1a434ef034",
    ),
    "movie_recommendation": (
        "a8b53a87ee21a865b7248e694f388a9b8f7cf6b839b11d44796a2dd3fc088983",
        "cdf765634713b057091d541b4773dd2c998f81447b0bd8564ae70be4cdf3f5d0",
    ),
    "multistep_arithmetic_two": (
        "c9d5a6433c9b78256422a15c78463949c8bec8d85607aa28b52d7234ad4a8595",
        "a546e0b7cde09037bc144ae5c32c9cf78dafdfac929ae76e2051b2dd8f3671ce",
    ),
    "navigate": (
        "b7944dfd3c81da5c4815bd75b00d6fa3c64140823498e78ed496f4c3d36f7f0d",
        "dc2fd733f1867b8c79685f15b83746064534a94bf73468341c2a9dd335be22fc",
    ),
    "object_counting": (
        "8acef14dbbdd40d2326ef7755750b6b5fe919fef06276af1bab3f1c297f022ff",
        "e51ffc03fd713a13a379a6c938a523dfc1c2f384f2a8447bd7a12d4458f18833",
    ),
    "penguins_in_a_table": (
        "bb87ee449698eee51215e025a453b1bcb2f5e6589c2063b2c79e68b8f0655228",
        "33be137e76c2a6af0bbacd17a8e7a92801886c0202a45e35ea9c2a88c1f26d51",
    ),
    "reasoning_about_colored_objects": (
        "0a8850cf95166020fce7a78244026ceedd7ea839302471512b4f8744e85a6a49",
        "e4ea02d05b13e8ed9ccc3b0d878bc4df4c5a6fb76c65d39d48d6244f7ff0b9d5",
    ),
    "ruin_names": (
        "b6f723aef2bafdd4c7bfc3c7e0329c7e8a8279391a609969c8ed76c9319f5f7f",
        "731446c6c66bb5258677af1417b599a6a5539be6d74a5afc02cf7a716444ea54",
    ),
    "salient_translation_error_detection": (
        "becf3eb8dd53c821a555ecd5c1334ecd93eb25f980e63be963c518e7138de5da",
        "2c8367f75092202cc507fdbfaaf037b1c1eed38e91289084439738367f0785f7",
    ),
    "snarks": (
        "54a0661fe2de06167645a4965e6bcf963c4ba307e76262a7c750998b0e3d0d0e",
        "35084a2a0b86bc4008ab206b838c0b97dd425897dd72198137c3cefc499c0960",
    ),
    "sports_understanding": (
        "63ca262858f6176864515cd8cf53cdaa40839ebecc155b726d77930855d167bf",
        "2058a9bed717a6edb8ca2f815e88851436a4ee14c8b0d504ccf464865c6d0295",
    ),
    "temporal_sequences": (
        "92a1189faaa84aacc4c405aaa13f13f48c2992eb884772eedb622505252baef5",
        "3e7ebf1e20abe3e219dc6514dcb7474d82db1b2c66acc733cd30af2e9e0b64b0",
    ),
    "tracking_shuffled_objects_five_objects": (
        "2063a46a4fb484236ed4310523606543a3e1dd4a4dc34eda65d407910ece25a5",
        "2ef54cb2a72052adc3484a76209cb6a6535f194d677e79bcec2e2e71cf3768af",
    ),
    "tracking_shuffled_objects_seven_objects": (
        "b59fd05b850c37cf57cb514ae1e6975c00b1638ade2291722056b2af3c54084d",
        "2ef54cb2a72052adc3484a76209cb6a6535f194d677e79bcec2e2e71cf3768af",
    ),
    "tracking_shuffled_objects_three_objects": (
        "546cc7bf10c6a01a6a4c17ae28a4966485f21f29fd5d111f37858ec78e354f6b",
        "2ef54cb2a72052adc3484a76209cb6a6535f194d677e79bcec2e2e71cf3768af",
    ),
    "web_of_lies": (
        "3e60323f8514a107fdb4edf35f8832a9171c5a09c0eaa47823559de905e8ab8b",
        "c8025ca65ab7f0897c243504c863bda043d04b6e873777536743e94023c929d0",
    ),
    "word_sorting": (
        "2a6132d2c99f00d0d2eb1113ac6b4a918bd969d863c48749210d969713db8d43",
        "a2cdbcfe23abaa97b9787f7c03dbf49b1cfd0ff9e63197b7884bb5cd5a096ca6",
    ),
}
"""Of each task's rows and of its examples, at that commit."""

_EXAMPLE: Final = re.compile(r"Q: (?P<question>.*)\nA: Let's think step by step\.\s(?P<solution>.*)", re.DOTALL)
_OPTION: Final = re.compile(r"^\(([A-Z])\) (.*)$", re.MULTILINE)
_LETTER: Final = re.compile(r"\(([a-z])\)|([a-z])(?=[).:]|$)")
_BRACKETED: Final = re.compile(r"\(([a-z])\)")
_LINE: Final = 200
_GUESSED: Final = frozenset({"formula", "number"})
"""Routes that find a number in any text: an answer only where a number is asked for."""


def examples(raws: Iterable[Row]) -> Iterator[Row]:
    """A file of worked examples as one raw row for each of them; other raw rows as they are."""
    for raw in raws:
        if "text" in raw:
            yield from _worked(raw)
        else:
            yield raw


def from_source(raw: Row) -> dict[str, Any]:
    """A row of a task, or a worked example, the first of which has the task's description."""
    if "solution" not in raw:
        return {"question": rows.text(raw, "input"), "answer": rows.text(raw, "target"), "task": rows.text(raw, FILE)}
    solution = rows.text(raw, "solution")
    return {name: rows.text(raw, name) for name in ("question", "task")} | {
        "answer": extract.sentence(solution),
        "solution": solution,
        "description": str(raw["description"]),
    }


def check_row(row: Row) -> None:
    """Refuse what is no question row of a known task."""
    rows.check_question(row)
    if row.get("task") not in SHA256:
        raise RowError(f"'task' is {rows.shown(row.get('task'))}, which is none of the {len(SHA256)} tasks")


def _worked(raw: Row) -> Iterator[Row]:
    _, mark, body = rows.text(raw, "text").partition("\n-----\n")
    description, *worked = body.split("\n\nQ: ")
    if not mark or not worked:
        raise RowError("the text is no file of worked examples")
    for number, text in enumerate(worked):
        parts = _EXAMPLE.fullmatch(f"Q: {text.rstrip()}")
        if parts is None:
            raise RowError(f"worked example {number + 1} is not of the form Q: .. A: Let's think step by step.")
        yield {**parts.groupdict(), "task": raw[FILE], "description": "" if number else description.strip()}


def grade(row: Row, answer: Answer) -> Grade:
    """Right if the completion's last announced answer is the target."""
    expected = str(row["answer"])
    found = _found(answer.text, number=_number(expected) is not None)
    if not found.text:
        return Grade(0.0, None, expected, "no_answer")
    if same(found.text, expected, str(row["question"])):
        return Grade(1.0, found.text, expected, "right", route=found.route)
    return Grade(0.0, found.text, expected, "wrong", route=found.route)


GRADER: Final = Grader.of("bbh-v1", "2", grade)


def _found(text: str, *, number: bool) -> extract.ExtractedAnswer:
    """What is announced; else, where a number is asked for, the last one; else the whole text if it is one line."""
    found = extract.of_text(text)
    if found.text and (number or found.route not in _GUESSED):
        return found
    line = extract.after_thinking(text[-_LINE * 2 :]).strip()
    return (
        extract.ExtractedAnswer(line, "line")
        if line and len(line) <= _LINE and "\n" not in line
        else extract.ExtractedAnswer()
    )


def same(text: str, expected: str, question: str) -> bool:
    """Whether a text gives the expected answer to a question."""
    given, target = _normal(text), _normal(expected)
    if given == target:
        return True
    letter = _LETTER.fullmatch(target)
    if letter and expected.startswith("("):
        return _option(given, question) == letter[1]
    if set(target) <= set("()[]{}<> "):
        return _joined(given) == _joined(target)
    if _number(target) is not None:
        return _number(given) == _number(target)
    return _words(given) == _words(target)


def _option(given: str, question: str) -> str | None:
    """The letter of the option that is meant: by letter, or by a text that only one option has."""
    options = {letter.lower(): _normal(text) for letter, text in _OPTION.findall(question)}
    if letter := _LETTER.match(given):
        name, rest = letter[1] or letter[2], given[letter.end() :].strip()
        text = options.get(name, "")
        others = set(_BRACKETED.findall(rest)) - {name}
        return None if rest != text and (others or candidates.objection(text, rest)) else name
    meant = [name for name, text in options.items() if text == given]
    return meant[0] if len(meant) == 1 else None


def _normal(text: str) -> str:
    text = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return text.strip("*_`\"' ").rstrip(".").rstrip("*_`\"' ")


def _joined(text: str) -> str:
    return "".join(text.split())


def _words(text: str) -> list[str]:
    return re.split(r"[\s,;]+", text)


def _number(text: str) -> int | None:
    digits = text.replace(",", "").replace(" ", "")
    return int(digits) if re.fullmatch(r"-?[0-9]{1,30}", digits) else None
