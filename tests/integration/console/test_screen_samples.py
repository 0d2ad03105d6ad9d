"""The samples of real jobs: narrowed, grouped, searched, exported; and one of them, alone and beside another."""

from pathlib import Path
from typing import Any

import pytest
from waiting import soon

CHOICES, SUMS = "own_quiz", "demo_arith"


@pytest.fixture(scope="module")
def job_of(measured: Any) -> Any:
    """The first finished job of a benchmark."""

    def find(benchmark: str) -> str:
        items = reversed(measured.api.get("/v1/jobs").value["items"])
        return next(item["id"] for item in items if item["benchmark"] == benchmark and item["state"] == "done")

    return find


def numbers(node: Any, job: str, *, wrong: bool = False) -> list[int]:
    """The samples in the order of their rows, which is not always that in which they were stored."""
    items = node.api.get(f"/v1/jobs/{job}/samples", wrong=wrong, limit=1000).value["items"]
    return [item["number"] for item in items]


def wrong_numbers(node: Any, job: str) -> list[int]:
    return numbers(node, job, wrong=True)


async def test_the_list_narrows_groups_and_opens(measured: Any, pressing: Any, job_of: Any) -> None:
    job = job_of(CHOICES)
    wrong = wrong_numbers(measured, job)
    async with pressing(measured, size=(80, 24)) as hands:
        hands.app.go("samples", job)
        await hands.see("24 samples", f"✗ {len(wrong)} wrong", "You are a very", "choice")
        view = hands.app.frame.view
        await hands.press("f", see=f"Samples · wrong  {len(wrong)} of 24")
        assert [int(view.listed.listing.key_at(place)) for place in range(len(wrong))] == wrong
        assert view.command() == f"rwkvctl samples {job} --wrong"
        await hands.press("f", see=f"Samples · right  {24 - len(wrong)} of 24")
        await hands.press("f", "g", see="by reason")
        await hands.press("g", see=("by subject", "animals", "colours"))
        await hands.press("j", "enter", see="of 24")
        assert view.book.narrowed.subject == view.groups.listing.key_at(1)
        await hands.press("escape")
        await soon(lambda: not view.book.narrowed.subject, "the subject is let go")
        await hands.press("g", "enter", see="reason:=")
        assert view.book.narrowed.typed == 'reason:="wrong"'
        await hands.press("escape", "g", "g", "g")
        await soon(lambda: not view.grouped, "the list is back")


async def test_keys_step_from_one_to_the_next(measured: Any, pressing: Any, job_of: Any) -> None:
    job = job_of(CHOICES)
    every, wrong = numbers(measured, job), wrong_numbers(measured, job)
    async with pressing(measured) as hands:
        hands.app.go("samples", job)
        await hands.see("Selected sample", " Q You are")
        table = hands.app.frame.view.listed
        assert int(table.chosen) == every[0]
        await hands.press("right_parenthesis")
        assert int(table.chosen) == every[1]
        await hands.press("left_parenthesis")
        assert int(table.chosen) == every[0]
        await hands.press("right_curly_bracket")
        assert int(table.chosen) == next(number for number in wrong if number != every[0])
        await hands.press("G", "right_curly_bracket", see="no more wrong samples")
        await hands.press("left_curly_bracket")
        assert int(table.chosen) == [number for number in wrong if number != every[-1]][-1]
        await hands.press("home")
        assert int(table.chosen) == every[0]


async def test_texts_are_searched_on_the_node(measured: Any, pressing: Any, job_of: Any) -> None:
    job = job_of(CHOICES)
    async with pressing(measured) as hands:
        hands.app.go("samples", job)
        await hands.see("24 samples", "You are")
        await hands.press("slash")
        await hands.type("expert in animals")
        await hands.press("enter", see=("/expert in animals", "8 of 24"))
        await hands.press("slash", "ctrl+u")
        await hands.type("row:>")
        await hands.type("=20 ~x")
        await hands.see("text is searched literally")
        await hands.press("backspace", "backspace", "backspace", "enter")
        await hands.gone("text is searched literally")
        await hands.see("4 of 24")
        await hands.press("escape")
        await hands.gone("4 of 24")
        assert hands.app.frame.view.book.mask is None


async def test_what_is_shown_is_exported(
    measured: Any, pressing: Any, job_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(CHOICES)
    monkeypatch.chdir(tmp_path)
    async with pressing(measured) as hands:
        hands.app.go("samples", job)
        await hands.see("24 samples")
        await hands.press("f", see="Samples · wrong")
        await hands.press("x", "enter", see="rows written to")
    lines = (tmp_path / f"rwkvctl-samples-{job}.csv").read_text().splitlines()
    assert len(lines) == 1 + len(wrong_numbers(measured, job))
    assert lines[0].startswith("row,verdict,extracted,expected,reason")
    assert ",wrong," in lines[1]


async def test_an_address_narrows_the_list(measured: Any, pressing: Any, job_of: Any) -> None:
    job = job_of(CHOICES)
    async with pressing(measured) as hands:
        hands.app.go("samples", f"{job} filter=wrong subject=animals")
        await hands.see("Samples · wrong · animals", "SUBJECT")
        await hands.press("escape", see="Samples · wrong  ")
        await hands.press("escape")
        await hands.gone("Samples · wrong")
        await hands.press("escape", see="Running")


async def test_only_columns_that_are_known_order_the_list(measured: Any, pressing: Any, job_of: Any) -> None:
    async with pressing(measured) as hands:
        hands.app.go("samples", job_of(CHOICES))
        await hands.see("24 samples", "You are")
        await hands.press("greater_than_sign", see="ROW▾")
        table = hands.app.frame.view.listed
        assert int(table.chosen) != int(table.listing.key_at(0))
        await hands.press("greater_than_sign", "greater_than_sign", see="samples cannot be sorted by")


async def test_one_sample_is_read(measured: Any, pressing: Any, job_of: Any) -> None:
    job = job_of(CHOICES)
    wrong = wrong_numbers(measured, job)
    async with pressing(measured, size=(80, 24)) as hands:
        hands.app.go("samples", job)
        await hands.see("24 samples", "You are")
        await hands.press("f", see="Samples · wrong")
        await hands.press("enter", see=("✗ wrong", "prompt answer", "completion answer", f"wrong 1 of {len(wrong)}"))
        view = hands.app.frame.view
        assert view.places == [(job, wrong[0])]
        await hands.press("right_parenthesis", see=f"wrong 2 of {len(wrong)}")
        await hands.press("right_curly_bracket", see=f"wrong 3 of {len(wrong)}")
        await hands.press("left_curly_bracket", "left_parenthesis", see=f"wrong 1 of {len(wrong)}")
        await hands.press("left_parenthesis", see="no more samples")
        await hands.press("G", see=("same sample in other runs", "settings of the job"))
        await hands.press("right_parenthesis", see=f"wrong 2 of {len(wrong)}")
        await hands.press("escape", see="Samples · wrong")
        assert int(hands.app.frame.view.listed.chosen) == wrong[1]


async def test_two_lie_side_by_side_where_there_is_room(measured: Any, pressing: Any, job_of: Any) -> None:
    job = job_of(CHOICES)
    number = wrong_numbers(measured, job)[0]
    async with pressing(measured) as hands:
        hands.app.go("sample", f"{job}:{number}")
        await hands.see("same sample in other runs")
        await hands.press("d", see=f"{job} sample {number} beside")
        view = hands.app.frame.view
        assert len(view.places) == 2
        assert view.command().startswith(f"rwkvctl samples diff {job} ")
        one, other = view.views
        assert (one.region.width > 40, other.region.width > 40) == (True, True)
        await hands.press("tab")
        assert other.has_focus
        await hands.press("shift+tab")
        assert one.has_focus
        await hands.resize(80, 24)
        assert (one.display and one.region.width > 70, other.region.width) == (True, 0)
        await hands.press("tab")
        await hands.settled()
        assert (one.region.width, other.region.width > 70) == (0, True)
        assert [line[:5].strip() for line in hands.text.split("\n")[2:4]] == ["tab", "▸"]
        await hands.press("d")
        await hands.gone(f"sample {number} beside")
        assert len(view.places) == 1


async def test_keys_of_one_sample(
    measured: Any, pressing: Any, job_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(SUMS)
    item = next(one for one in measured.api.get(f"/v1/jobs/{job}/samples", limit=9).value["items"] if one["value"])
    copied: list[str] = []
    monkeypatch.chdir(tmp_path)
    async with pressing(measured) as hands:
        monkeypatch.setattr(hands.app, "copy", copied.append)
        hands.app.go("sample", f"{job}:{item['number']}")
        await hands.see("✓ right", "settings of the job")
        view = hands.app.frame.view
        await hands.press("ampersand")
        await hands.type("temperature")
        await hands.press("enter", see="&temperature")
        await hands.press("escape")
        await hands.gone("&temperature")
        await hands.press("slash")
        await hands.type("nowhere at all")
        await hands.press("enter", see="not found: nowhere at all")
        await hands.press("escape", "g", "y", see="prompt of answer")
        await hands.press("down", "enter")
        await hands.press("Y")
        assert copied == [item["stages"][0]["completion"], f"rwkvctl samples {job} --after -1 --limit 1 --full"]
        await hands.press("w")
        assert not view.views[0].wrap
        await hands.press("w", "r", see="no judge is asked about samples of this kind")
        await hands.press("r")
        await hands.gone("no judge is asked")
        await hands.press("p")
        assert view.told[0].whole_prompts
        await hands.press("x", "enter", see="written to")
        assert f"rwkvctl-sample-{job}-{item['number']}.txt" in {path.name for path in tmp_path.iterdir()}
        assert measured.cli(*copied[1].split()[1:]).stdout


async def test_a_job_is_graded_again_when_that_is_confirmed(fresh: Any, pressing: Any) -> None:
    number = fresh.api.get("/v1/jobs/j1/samples", limit=1).value["items"][0]["number"]
    async with pressing(fresh) as hands:
        hands.app.go("sample", f"j1:{number}")
        await hands.see("settings of the job")
        await hands.press("e", see="Grade all samples of j1 again?")
        await hands.press("escape")
        await hands.press("e", see="Grade all samples of j1 again?")
        await hands.press("y", see="j1 done")
        assert hands.app.commands[-1] == "rwkvctl regrade j1"
    async with pressing(fresh, read_only=True) as hands:
        hands.app.go("sample", f"j1:{number}")
        await hands.see("settings of the job")
        await hands.press("e", see="read-only")


async def test_samples_by_the_command_line(measured: Any, job_of: Any) -> None:
    job = job_of(CHOICES)
    wrong = wrong_numbers(measured, job)
    counts = measured.cli("samples", "counts", job, "--subjects").stdout
    assert {line.split("\t")[0] for line in counts.splitlines()[1:]} == {"animals", "colours", "numbers"}
    same = measured.cli("samples", "same", job, "--row", "0").stdout.splitlines()
    assert same[0].startswith("job\tmodel")
    assert len(same) == 2
    assert "no judge is asked" in measured.cli("samples", "exchange", job, str(wrong[0])).stdout
    lines = measured.cli("samples", job, "--reason", "wrong", "--limit", "100").stdout.splitlines()
    assert [int(line.split("\t")[0]) for line in lines[1:]] == wrong
    assert not measured.cli("samples", job, "--cut", "-o", "json").stdout.count('"number"')
