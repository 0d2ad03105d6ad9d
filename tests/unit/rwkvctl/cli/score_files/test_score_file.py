"""CSV files of scores: every way in which people write them, and what is wrong in one, by file and line."""

import hashlib
from pathlib import Path
from typing import Any

import hostile
import pytest
from glass import on_a_terminal

from rwkvctl.cli import main
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.score_files.score_file import GivenFile, read

HEADER = "benchmark,kind,metric,value,n\n"
ROW = "gsm8k,free_response,accuracy,0.41,1319\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "scores.csv"


def given(path: Path, text: str | bytes, model: str = "m") -> GivenFile:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read(str(path), model)


def plain(found: GivenFile) -> list[tuple[Any, ...]]:
    return [(one["benchmark"], one["kind"], one["metric"], one["value"], one["n"]) for one in found.scores]


ONE = [("gsm8k", "free_response", "accuracy", 0.41, 1319)]


@pytest.mark.parametrize(
    "text",
    [
        HEADER + ROW,
        HEADER + ROW.rstrip("\n"),
        (HEADER + ROW).replace("\n", "\r\n"),
        "n,value,metric,kind,benchmark\n1319,0.41,accuracy,free_response,gsm8k\n",
        " Benchmark , KIND,metric,value,n,paper,year\n gsm8k , free_response ,accuracy, .41 , 1319 ,X,2025\n",
        "\ufeff" + HEADER + ROW,
        '"benchmark","kind","metric","value","n"\n"gsm8k","free_response","accuracy","0.41","1319"\n',
        f"{HEADER}\n\n{ROW}\n , ,,,\n",
        HEADER + "gsm8k,free_response,accuracy,4.1e-1,1319\n",
        "model," + HEADER + "," + ROW,
    ],
)
def test_however_it_is_written_it_is_the_same_score(path: Path, text: str) -> None:
    found = given(path, text)
    assert (plain(found), found.left_out, found.program) == (ONE, [], "csv")
    assert found.sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_a_place_is_the_line_of_the_file_even_after_blank_ones(path: Path) -> None:
    found = given(path, f'{HEADER}\n{ROW}"math\n500",k,accuracy,0.5,500\n{ROW}')
    assert [one["place"] for one in found.scores] == [f"{path}:{line}" for line in (3, 5, 6)]


def test_of_several_models_the_one_that_is_named_is_taken_and_the_others_are_told(path: Path) -> None:
    text = "model," + HEADER + "".join(f"{name},{ROW}" for name in ("a", "m", "b", "a"))
    found = given(path, text)
    assert (plain(found), found.left_out) == (ONE, ["2 other models in the file: a, b"])
    with pytest.raises(UsageError, match="has no scores of x; it has those of a, m, b"):
        given(path, text, "x")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("benchmark,kind,metric,value\n", "{path}:1: the columns benchmark, kind, metric, value, n are needed"),
        ("benchmark,kind,metric,value,n,N\n" + ROW, "{path}:1: the columns"),
        (ROW, "{path}:1: the columns"),
        ("", "{path} is empty"),
        ("[]", "{path}: it is JSON, but no results file of lm_eval"),
        ("\n\n", "{path} is empty"),
        (HEADER.replace(",", ";") + ROW.replace(",", ";"), "{path}:1: the columns"),
        (HEADER, "{path} has no scores"),
        (HEADER + "\n,,,,\n", "{path} has no scores"),
        (f"{HEADER}{ROW}gsm8k,free_response,,0.5,1319\n", "{path}:3: metric is empty"),
        (f"{HEADER}{ROW}gsm8k\n", "{path}:3: kind, metric, value, n is empty"),
        (f"{HEADER}gsm8k,free_response,accuracy,0,41,1319\n", "{path}:2: there are more values than columns"),
        (f"{HEADER}gsm8k,free_response,accuracy,41 %,1319\n", "{path}:2: value '41 %' is no number; a share"),
        (f'{HEADER}gsm8k,free_response,accuracy,"0,41",1319\n', "{path}:2: value '0,41' is no number"),
        (f"{HEADER}gsm8k,free_response,accuracy,nan,1319\n", "{path}:2: value 'nan' is no number"),
        (f"{HEADER}gsm8k,free_response,accuracy,-inf,1319\n", "{path}:2: value '-inf' is no number"),
        (f"{HEADER}gsm8k,free_response,accuracy,1e999,1319\n", "{path}:2: value '1e999' is no number"),
        (f"{HEADER}gsm8k,free_response,accuracy,0.5,0\n", "{path}:2: n '0' is no number of rows"),
        (f"{HEADER}gsm8k,free_response,accuracy,0.5,-3\n", "{path}:2: n '-3' is no number of rows"),
        (f"{HEADER}gsm8k,free_response,accuracy,0.5,1.5\n", "{path}:2: n '1.5' is no number of rows"),
        (f"{HEADER}gsm8k,free_response,accuracy,0.5,{2**53}\n", "{path}:2: n '9007199254740992' is no number of rows"),
        (f"{HEADER}gsm8k,free_response,accuracy,0.5,{'9' * 5000}\n", "{path}:2: n '999"),
        (f'{HEADER}"gsm8k,free_response\n', "{path}:2: unexpected end of data"),
        (f'{HEADER}"gsm8k"x,free_response,accuracy,0.5,3\n', "{path}:2: ',' expected after '\"'"),
        (f"{HEADER}{'x' * 200_000},k,accuracy,0.5,3\n", "{path}:2: field larger than field limit"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(path: Path, text: str, says: str) -> None:
    with pytest.raises(UsageError) as told:
        given(path, text)
    assert str(told.value).startswith(says.format(path=path)), str(told.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1"])
def test_other_encodings_are_refused(path: Path, encoding: str) -> None:
    with pytest.raises(UsageError, match=r"scores.csv is no UTF-8 text"):
        given(path, (HEADER + ROW.replace("gsm8k", "gsm8k\u00e9")).encode(encoding))


def test_what_cannot_be_read_is_refused_by_name(path: Path) -> None:
    with pytest.raises(UsageError, match=r"scores.csv: No such file"):
        read(str(path), "m")
    with pytest.raises(UsageError, match="is a folder; name a file of it"):
        read(str(path.parent), "m")
    results = path.parent / "model" / "results_2026-11-28.json"
    results.parent.mkdir()
    results.write_text("{}")
    with pytest.raises(UsageError, match=f"name a file of it: {results}"):
        read(str(path.parent), "m")


def test_lines_that_name_no_model_among_those_that_do_are_no_scores(path: Path) -> None:
    with pytest.raises(UsageError, match=r"scores.csv:3: no model is named, while other lines name one"):
        given(path, f"model,{HEADER}m,{ROW},{ROW}")


@pytest.mark.parametrize("text", hostile.SHORT)
def test_no_text_of_a_file_reaches_the_terminal_as_it_is(
    path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quoted = '"x' + text.replace('"', '""') + '"'
    forms = [
        f"{HEADER}gsm8k,free_response,accuracy,{quoted},3\n",
        f"{HEADER}gsm8k,free_response,accuracy,0.5,{quoted}\n",
        f"model,{HEADER}{quoted},{ROW}",
        f"{quoted},{HEADER}",
        '{"results": {' + f'"{text}": 3' + "}}",
        f'{{"results": {{"arc_easy": {{"acc,none": {quoted}}}}}}}',
    ]
    for form in forms:
        path.write_bytes(form.encode("utf-8", "surrogatepass"))
        with on_a_terminal(monkeypatch, "") as glass:
            assert main.main(["baseline", "add", "m", "--from", str(path)]) != 0
        sent = glass.text.replace("\x1b[31m", "").replace("\x1b[0m", "").replace("\x1b[1m", "")
        found = hostile.FORBIDDEN.search(sent)
        assert found is None, sent
        assert "\x1b" not in sent
        assert sent.count("\n") <= 1
        assert "Traceback" not in sent
