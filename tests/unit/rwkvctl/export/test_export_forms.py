"""Exported text: nothing of it is computed by a spreadsheet, drawn as markup or obeyed by a terminal."""

import csv
import errno
import io
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import hostile
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.cli.client import Record
from rwkvctl.export import jsonl, lm_eval, source, tabular
from rwkvctl.export.file_names import folded
from rwkvctl.export.output import whole_file
from rwkvctl.export.source import ScoreFilters
from rwkvctl.protocol.errors import RefusedError, RwkvctlError
from rwkvctl.text.sanitize import safe_line
from rwkvctl.text.table_cells import csv_cell

EVIL = "=HYPERLINK(1)\x1b]52;c;aGk=\x07|<b>\n\u202e"


def score(**more: Any) -> Record:
    return {
        "job": "j3",
        "model": "m",
        "benchmark": "gsm8k",
        "kind": "free_response",
        "version": 1,
        "primary": "accuracy",
        "metrics": {
            "accuracy": {"value": 0.5, "stderr": 0.1, "ci_low": 0.3, "ci_high": 0.7},
            "flexible": {"value": 0.6},
        },
        "n": 20,
        "rows": 20,
        "repeats": 1,
        "truncated": 2,
        "finished": "2026-01-01T00:00:00Z",
        "provenance": {
            "numerics": "fp32",
            "rows_sha256": "ab" * 32,
            "configuration": {
                "profile": "p",
                "stages": [{"name": "answer", "mode": "generate", "sampling": {"temperature": 0.0}}],
            },
            "benchmark_version": 2,
        },
        **more,
    }


def sample(row: int, repeat: int = 0, **more: Any) -> Record:
    stages = [
        {"stage": "cot", "prompt": "Q", "completion": "thought", "stop": "stop_token"},
        {"stage": "answer", "prompt": " So", "completion": " 5", "stop": "stop_token"},
    ]
    return {
        "number": 9,
        "row": row,
        "repeat": repeat,
        "value": 1.0,
        "reason": "right",
        "expected": "5",
        "extracted": "5",
        "stages": stages,
    } | more


def read_csv(lines: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(lines))))


def test_csv_has_a_line_a_metric_with_all_that_qualifies_it() -> None:
    first, second = read_csv(tabular.csv_lines([score()]))
    assert (first["metric"], first["primary"], first["value"], first["ci_low"]) == ("accuracy", "yes", "0.5", "0.3")
    assert (second["metric"], second["primary"], second["value"], second["ci_low"]) == ("flexible", "no", "0.6", "")
    assert (first["n"], first["truncated"], first["errors"], first["no_answer"]) == ("20", "2", "0", "0")
    assert (first["profile"], first["numerics"], first["rows_sha256"], first["imported"]) == (
        "p",
        "fp32",
        "ab" * 32,
        "no",
    )


def test_a_missing_score_is_empty_with_its_reason() -> None:
    [row] = read_csv(tabular.csv_lines([score(metrics={}, why_null="no samples")]))
    assert (row["value"], row["why_null"]) == ("", "no samples")
    line = list(tabular.markdown_lines([score(metrics={}, why_null="no samples")]))[-1]
    assert "| null |" in line
    assert "no samples" in line


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-1+2", "@SUM(A1)", "＝1", "\t=1", "\r=1", EVIL])
def test_no_text_is_a_formula(text: str) -> None:
    [row, _] = read_csv(tabular.csv_lines([score(model=text, warnings=(text,))]))
    for name in ("model", "warnings"):
        assert not row[name].startswith(("=", "+", "-", "@", "\t", "\r", "＝"))


def test_negative_numbers_stay_numbers() -> None:
    assert csv_cell(-0.5) == -0.5
    assert csv_cell("-0.5") == "-0.5"
    assert csv_cell("-0.5+1") == "'-0.5+1"


@given(st.text(max_size=40))
def test_whatever_a_name_is_csv_and_markdown_stay_in_shape(text: str) -> None:
    [row, _] = read_csv(tabular.csv_lines([score(model=text)]))
    assert row["benchmark"] == "gsm8k"
    assert not [char for char in row["model"] if ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0]
    title, _, line = tabular.markdown_lines([score(model=text, job=text)])
    assert line.count("\n") == 1
    bare = line.replace("\\\\", "").replace("\\|", "")
    assert bare.count("|") == title.count("|")


def test_json_lines_are_what_came() -> None:
    [line] = jsonl.score_lines([score(model=EVIL)])
    assert json.loads(line) == score(model=EVIL)
    assert "\x1b" not in line
    [line] = jsonl.sample_lines(score(), [sample(0)])
    assert json.loads(line) == {
        "model": "m",
        "benchmark": "gsm8k",
        "kind": "free_response",
        "version": 1,
        "job": "j3",
    } | sample(0)


def test_chats_alternate_for_every_stage() -> None:
    [line] = jsonl.chat_lines([sample(0)])
    assert json.loads(line) == [{"😺": "Q"}, {"🤖": "thought"}, {"😺": " So"}, {"🤖": " 5"}]


def test_lm_eval_rows_gather_repeats_and_keep_the_whole_answer() -> None:
    samples = [sample(0), sample(0, 1, value=0.0), sample(1, value=None)]
    first, second = map(json.loads, lm_eval.sample_lines(score(repeats=2), samples))
    assert first["resps"] == [["thought So 5", "thought So 5"]]
    assert (first["exact_match"], second["exact_match"]) == (0.5, None)
    assert first["arguments"]["gen_args_0"] == {"arg_0": "Q", "arg_1": {"temperature": 0.0}}


def test_lm_eval_rows_have_a_line_a_filter_with_its_own_verdict() -> None:
    own = score(kind="free_response.lm-eval")
    strict, flexible = map(json.loads, lm_eval.sample_lines(own, [sample(0, value=0.0, parts={"flexible": 1.0})]))
    assert (strict["filter"], strict["metrics"], strict["exact_match"]) == ("strict-match", ["exact_match"], 0.0)
    assert (flexible["filter"], flexible["exact_match"], flexible["filtered_resps"]) == (
        "flexible-extract",
        1.0,
        [None],
    )


def test_kinds_that_repeat_a_task_have_its_name_and_its_keys() -> None:
    theirs, ours = score(kind="free_response.lm-eval"), score()
    assert lm_eval.task_names([ours, theirs]) == ["gsm8k_free_response_v1", "gsm8k"], "the task's name is the task's"
    found = lm_eval.of_task("gsm8k", theirs)
    assert (found["exact_match,strict-match"], found["exact_match_stderr,strict-match"]) == (0.5, 0.1)
    assert found["exact_match,flexible-extract"] == 0.6
    assert "exact_match,none" in lm_eval.of_task("gsm8k", ours)
    assert lm_eval.configuration("gsm8k", theirs)["metric_list"] == [{"metric": "exact_match"}]
    coded = score(benchmark="mbpp", kind="code_mbpp.lm-eval", metrics={"pass@1": {"value": 0.5}})
    assert lm_eval.of_task("mbpp", coded)["pass_at_1,none"] == 0.5
    [line] = lm_eval.sample_lines(coded, [sample(0)])
    assert json.loads(line)["pass_at_1"] == 1.0
    imported = score(kind="free_response.lm-eval", provenance={"imported": {}})
    assert "exact_match,none" in lm_eval.of_task("gsm8k", imported)


@given(
    st.lists(st.tuples(st.sampled_from(["a/b", "a_b", "A_B", "gsm8k"]), st.sampled_from(["k", "k/", "K"])), max_size=9)
)
def test_no_two_scores_fold_into_one_task(named: list[tuple[str, str]]) -> None:
    scores = [score(job=f"j{n}", benchmark=benchmark, kind=kind) for n, (benchmark, kind) in enumerate(named)]
    names = lm_eval.task_names(scores)
    assert len({folded(name) for name in names}) == len(scores)
    assert not [name for name in names if not can_be_a_name(name)]


ALIKE = ["model", "Model", "mod\u00e9l", "mode\u0301l", "MOD\u00c9L", "model.", "model ", " model", "mo/del",
         "mo:del", "mo__del", "con", "CON.x", "nul", "..", ".", "", ".model", "-model", "m" * 150, "m" * 151,
         "m" * 5000, "\uff4dodel", "\u00df", "ss", "\u0130", "i\u0307", "\u6570" * 100, "\u6570" * 101,
         "mo\u00addel"]  # fmt: skip
NAMES = st.one_of(st.text(max_size=200), st.sampled_from([*ALIKE, *(text for _, text in hostile.HOSTILE_TEXTS)]))


def can_be_a_name(name: str) -> bool:
    """Whether every file system takes it and every terminal shows it, with a date and an ending around it."""
    stem = name.partition(".")[0].rstrip(" ")
    return (
        safe_line(name) == name and len(name.encode()) <= 200 and not re.search(r'[<>:"/\\|?*]', name)
        and name[0] not in ".-~ " and name[-1] not in ". "
        and not re.fullmatch(r"(?i)con|prn|aux|nul|com\d|lpt\d", stem)
    )  # fmt: skip


@given(NAMES, NAMES)
def test_no_two_models_fold_into_one_folder(one: str, other: str) -> None:
    assert can_be_a_name(lm_eval.folder_of(one)), lm_eval.folder_of(one)
    assert one == other or folded(lm_eval.folder_of(one)) != folded(lm_eval.folder_of(other))


def test_names_that_are_alike_somewhere_have_folders_of_their_own() -> None:
    texts = {*ALIKE, *(text for _, text in hostile.HOSTILE_TEXTS)}
    found = [lm_eval.folder_of(text) for text in texts]
    again = [lm_eval.folder_of(name) for name in found if name not in texts]
    assert len({folded(name) for name in [*found, *again]}) == len(found) + len(again), "nor do the names that are made"
    assert not [name for name in [*found, *again] if not can_be_a_name(name)]
    assert lm_eval.folder_of("rwkv7-g1d-0.1b-20260129-ctx8192") == "rwkv7-g1d-0.1b-20260129-ctx8192"


def test_lm_eval_tasks_have_names_of_their_own_and_folders_stay_inside() -> None:
    scores = [score(), score(kind="cot"), score(benchmark="mm/lu")]
    *names, replaced = lm_eval.task_names(scores)
    assert names == ["gsm8k_free_response_v1", "gsm8k_cot_v1"]
    assert replaced.startswith("mm_lu-")
    assert lm_eval.folder_of("a/../b").startswith("a__..__b-")
    assert lm_eval.folder_of("..").startswith("model-")
    assert lm_eval.folder_of("").startswith("model-")


class Pages:
    """The daemon's lists, in pages of two."""

    def __init__(self, items: list[Record]) -> None:
        self.items = items
        self.asked: list[dict[str, object]] = []

    def get(self, route: str, **query: Any) -> Any:
        self.asked.append(query)
        start = query.get("before") or query.get("after") or 0
        start = max(0, start)
        last = start + 2 >= len(self.items)
        none = -1 if "after" in query else 0
        page = {"items": self.items[start : start + 2], "next": none if last else start + 2}
        return type("Answer", (), {"value": page})


def test_only_the_newest_of_each_unless_all_are_wanted() -> None:
    imported = score(job="j7", provenance={"imported": {}})
    listed = [imported, score(job="j6"), score(job="j5"), score(job="j4", model="other")]
    pages = Pages(listed)
    found = [one["job"] for one in source.scores(pages, ScoreFilters())]  # type: ignore[arg-type]
    assert found == ["j7", "j6", "j4"], "an import hides no score of ours"
    assert len(pages.asked) == 2
    pages = Pages([*listed[:2], score(job="j6", finished="2025-01-01T00:00:00Z"), listed[2]])
    found = [one["job"] for one in source.scores(pages, ScoreFilters(model="m", all_versions=True))]  # type: ignore[arg-type]
    assert found == ["j7", "j6", "j5"], "of j6, which was graded again, only the newest"
    assert {(query["model"], query["all_versions"]) for query in pages.asked} == {("m", True)}
    samples = Pages([sample(n) for n in range(5)])
    assert [one["row"] for one in source.samples(samples, "j1")] == [0, 1, 2, 3, 4]  # type: ignore[arg-type]


def test_a_file_appears_whole_with_usual_rights_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    with whole_file(path, force=False) as file:
        file.write("a\n")
        assert not path.exists()
    assert path.read_text() == "a\n"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask

    def interrupted() -> None:
        with whole_file(tmp_path / "other.csv", force=False) as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [one.name for one in tmp_path.iterdir()] == ["scores.csv"]


def test_nothing_is_written_over_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("old")
    with pytest.raises(RefusedError, match="exists"), whole_file(path, force=False):
        pytest.fail("the block must not run")
    late = tmp_path / "late.csv"

    def come_in_between() -> None:
        with whole_file(late, force=False) as file:
            file.write("mine")
            late.write_text("somebody else's")

    with pytest.raises(RefusedError, match="exists"):
        come_in_between()
    assert late.read_text() == "somebody else's"
    with whole_file(path, force=True) as file:
        file.write("new")
    assert path.read_text() == "new"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["late.csv", "scores.csv"]


def test_a_file_system_without_links_still_gets_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with whole_file(tmp_path / "x", force=False) as file:
        file.write("a")
    assert (tmp_path / "x").read_text() == "a"


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(RwkvctlError, match="cannot be written: No such file"),
        whole_file(tmp_path / "no" / "x", force=False),
    ):
        pytest.fail("the block must not run")
