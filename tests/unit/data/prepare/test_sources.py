"""Raw rows of local files: every shape, and every way in which one can be bad, named by file and line."""

import gzip
import json
import zipfile

import pytest

from rwkv_data import __main__ as cli
from rwkv_data.definition import registry
from rwkv_data.definition.errors import PrepareError, RowError
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare

MMLU, ARC = registry.load("mmlu"), registry.load("arc_challenge")


@pytest.fixture
def prepared(tmp_path):
    """Return a function that prepares one benchmark from one file: (benchmark, file name, content) -> rows."""

    def run(name: str, file: str, content: bytes | str) -> list[dict[str, object]]:
        path = tmp_path / file
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        prepare(name, tmp_path / "data", path)
        return [dict(row) for row in prepared_sets.load_rows(tmp_path / "data", registry.load(name))]

    return run


def zipped(path, members: dict[str, str]):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_zip_of_csv_keeps_words_quotes_and_subjects(tmp_path) -> None:
    path = zipped(
        tmp_path / "mmlu.zip",
        {
            "data/test/world_history_test.csv": '"I. ""one""\nII, two",None,N/A,nan,"",D\n',
            "data/test/anatomy_test.csv": "Q,a,b,c,d,A\n",
            "data/dev/anatomy_dev.csv": "Example,a,b,c,d,B\n",
        },
    )
    prepare("mmlu", tmp_path / "data", path)
    rows = prepared_sets.load_rows(tmp_path / "data", MMLU)
    assert [(row["subject"], row["answer"]) for row in rows] == [("anatomy", "A"), ("world_history", "D")]
    assert rows[1]["question"] == 'I. "one"\nII, two'
    assert rows[1]["choices"] == ["None", "N/A", "nan", ""]


def test_mmlu_of_the_hub() -> None:
    raw = {"question": "Q", "choices": ["w", "x", "None", "z"], "answer": 2, "subject": "anatomy"}
    assert MMLU.convert(raw) == raw | {"answer": "C"}


def test_three_shapes_of_arc_give_one_row() -> None:
    hub = {
        "id": "i",
        "question": "Q?",
        "choices": {"text": ["u", "v", "w"], "label": ["1", "2", "3"]},
        "answerKey": "3",
    }
    ai2 = {
        "id": "i",
        "question": {"stem": "Q?", "choices": [{"text": t, "label": n} for t, n in zip("uvw", "ABC", strict=True)]},
        "answerKey": "C",
    }
    adapters = {
        "instruction": "Please choose the correct answer to the question: Q?\n\nAnswer1: u Answer2: v Answer3: w\n\n"
        "Answer format: answer1/answer2/answer3",
        "answer": "answer3",
    }
    row = {"question": "Q?", "choices": ["u", "v", "w"], "answer": "C", "subject": "science"}
    assert ARC.convert(hub) == ARC.convert(ai2) == row | {"id": "i"}
    assert ARC.convert(adapters) == row


def test_json_lines_may_be_gzipped(prepared) -> None:
    raw = json.dumps({"question": "Q", "answer": "#### 7"}) + "\n\n"
    assert prepared("gsm8k", "test.jsonl.gz", gzip.compress(raw.encode()))[0]["answer"] == "7"


def test_a_byte_order_mark_is_no_text(prepared) -> None:
    assert len(prepared("gsm8k", "test.jsonl", '\ufeff{"question": "Q", "answer": "#### 7"}')) == 1


GOOD = '{"question": "Q", "answer": "#### 7"}\n'


@pytest.mark.parametrize(
    ("name", "file", "content", "complaint"),
    [
        ("gsm8k", "test.jsonl", GOOD + '{"question": "Q"}', "test.jsonl:2: 'answer' is missing, not text"),
        ("gsm8k", "test.jsonl", GOOD + "\n\n" + '{"question": " ", "answer": "#### 1"}', "test.jsonl:4: 'question' is"),
        ("gsm8k", "test.jsonl", '{"question": "Q", "answer": "7"}', "test.jsonl:1: 'answer' has no '####'"),
        ("gsm8k", "test.jsonl", '{"question": "Q", "answer": "#### x"}', "test.jsonl:1: 'answer' is 'x', not a number"),
        ("gsm8k", "test.jsonl", GOOD + '{"question": ', "test.jsonl:2: not JSON"),
        ("gsm8k", "test.jsonl", GOOD + "[1]", "test.jsonl:2: not a JSON object"),
        ("gsm8k", "test.jsonl", '{"question": "\\ud800", "answer": "#### 7"}', "test.jsonl:1: the row holds text that"),
        ("gsm8k", "test.jsonl", GOOD.encode() + b'"\xff"', "test.jsonl:2: not UTF-8 at byte 1"),
        ("gsm8k", "test.jsonl", "", "there are no rows for gsm8k"),
        ("gsm8k", "test.jsonl.gz", b"nothing", "test.jsonl.gz is damaged (BadGzipFile"),
        ("gsm8k", "test.doc", b"", "is none of .jsonl"),
        ("arc_challenge", "test.json", "{}", "test.json holds no JSON list"),
        ("arc_challenge", "test.json", '[{"instruction": "?"}]', "test.json item 1: 'instruction' is not of the form"),
        (
            "arc_challenge",
            "test.jsonl",
            '{"id": "i", "question": "Q", "answerKey": "A"}',
            "test.jsonl:1: the key 'A' is",
        ),
        ("mmlu", "x_test.csv", 'Q,a,b,c,d,A\n"two\nlines",a,b,c,A\n', "x_test.csv:2: 5 cells"),
        ("mmlu", "x_test.csv", "Q,a,b,c,d,E\n", "x_test.csv:1: 'answer' is 'E', which is none of the 4 choices"),
        ("mmlu", "x_test.csv", "Q,a,b,c,d,AB\n", "x_test.csv:1: 'answer' is 'AB'"),
        ("mmlu", "mmlu.zip", b"nothing", "mmlu.zip is damaged (BadZipFile"),
    ],
)
def test_what_is_bad_is_named_by_file_and_line(prepared, name, file, content, complaint) -> None:
    with pytest.raises(PrepareError) as caught:
        prepared(name, file, content)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ({"question": "Q", "choices": ["a"] * 4, "answer": 4, "subject": "s"}, "answer.* is .*4"),
        ({"question": "Q", "choices": ["a"] * 3, "answer": 0, "subject": "s"}, "'choices' has 3 entries, not 4"),
        ({"question": "Q", "choices": ["a", None, "b", "c"], "answer": 0, "subject": "s"}, "not a list of texts"),
        ({"question": "Q", "choices": ["a"] * 4, "answer": 0}, "subject"),
    ],
)
def test_bad_rows_of_the_hub(raw: dict[str, object], complaint: str) -> None:
    with pytest.raises(RowError, match=complaint):
        MMLU.convert(raw)


@pytest.mark.parametrize(
    "raw",
    [
        {"id": "i", "question": "Q", "choices": {"text": ["u"], "label": ["A", "B"]}, "answerKey": "A"},
        {"id": "i", "question": "Q", "choices": ["u", "v"], "answerKey": "A"},
        {"id": "i", "question": {"stem": "Q", "choices": ["u", "v"]}, "answerKey": "A"},
        {"id": "i", "question": {"stem": "Q", "choices": None}, "answerKey": "A"},
        {"id": "i", "question": {"stem": "Q", "choices": [{"label": "A"}, {"label": "B"}]}, "answerKey": "A"},
    ],
)
def test_malformed_choices_are_row_errors(raw: dict[str, object]) -> None:
    with pytest.raises(RowError):
        ARC.convert(raw)


@pytest.mark.parametrize("level", ["high", None])
def test_a_level_that_is_no_number(level: str | None) -> None:
    raw = dict.fromkeys(("problem", "answer", "solution", "subject", "unique_id"), "x") | {"level": level}
    with pytest.raises(RowError, match="'level'"):
        registry.load("math_500").convert(raw)


def test_a_folder_without_the_file_names_what_was_looked_for(tmp_path) -> None:
    with pytest.raises(PrepareError, match=r"holds none of test\.jsonl"):
        prepare("gsm8k", tmp_path / "data", tmp_path)
    with pytest.raises(PrepareError, match="cannot be read: No such file"):
        prepare("gsm8k", tmp_path / "data", tmp_path / "nothing.jsonl")
    empty = zipped(tmp_path / "mmlu.zip", {"data/dev/anatomy_dev.csv": ""})
    with pytest.raises(PrepareError, match=r"holds no file of rows of the split 'test'"):
        prepare("mmlu", tmp_path / "data", empty)


@pytest.fixture
def no_configuration(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))


def test_command_line_refuses_in_one_line(tmp_path, capsys, no_configuration) -> None:
    (tmp_path / "test.jsonl").write_text(GOOD + "{}\n")
    assert cli.main(["prepare", "gsm8k", "--home", str(tmp_path), "--from", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("rwkv_data: ")
    assert f"{tmp_path}/test.jsonl:2: 'answer' is missing" in error
    assert error.count("\n") == 1
    assert cli.main(["prepare", "gsm9k", "--home", str(tmp_path)]) == 4
