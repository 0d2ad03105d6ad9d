"""Scores and Compare against a real daemon that has measured two checkpoints."""

import csv
import json
from pathlib import Path
from typing import Any

from waiting import soon

from rwkvctl.tui.screens.compare import Compare
from rwkvctl.tui.screens.scores import Scores
from rwkvctl.tui.widgets.chart import Chart
from rwkvctl.tui.widgets.matrix_table import MatrixTable

OTHER = "rwkv7-g1-0.1b-20260801-ctx4096"


def matrix(hands: Any) -> MatrixTable[Any]:
    return hands.app.query_one("#matrix", MatrixTable)


def rate(node: Any, model: str, benchmark: str) -> float:
    """The accuracy of the newest score, in percent."""
    found = node.api.get("/v1/scores").value["items"]
    return next(
        100 * one["metrics"]["accuracy"]["value"]
        for one in found
        if (one["model"], one["benchmark"]) == (model, benchmark)
    )


def flipped(node: Any, benchmark: str) -> dict[str, Any]:
    """What the command line says of the second model against the first."""
    reply = json.loads(node.cli("compare", "builtin", OTHER, "--flips", "-o", "json", check=False).stdout)
    return next(item for item in reply["items"] if item["benchmark"] == benchmark)


async def scores(hands: Any) -> None:
    """Open the screen and wait for the whole matrix."""
    await hands.press("4", see=("2 models × 3", "newest first", "2 runs"))


async def test_the_matrix_is_what_the_daemon_says(measured: Any, pressing: Any) -> None:
    known = measured.api.get("/v1/scores").value["items"]
    async with pressing(measured) as hands:
        await scores(hands)
        rows = {row.name: row for row in matrix(hands).listing.rows}
        shown = {(model, *key): score for model, row in rows.items() for key, score in row.cells.items()}
        assert len(shown) == len(known) == 5
        for score in known:
            cell = shown[score["model"], score["benchmark"], score["kind"]]
            assert (cell.job, cell.n) == (score["job"], score["n"])
            assert cell.read().value == score["metrics"]["accuracy"]["value"]
        assert "mean over the 2 that all have" in hands.text
        assert "~" in hands.text, "no base: what is partial is marked"


def test_brief_scores_come_in_pages_and_without_provenance(measured: Any) -> None:
    whole = measured.api.get("/v1/scores").value["items"]
    found: list[Any] = []
    before = 0
    while True:
        reply = measured.api.get("/v1/scores", brief=True, limit=2, before=before).value
        found += reply["items"]
        before = reply.get("next", 0)
        if not before:
            break
    assert [score["job"] for score in found] == [score["job"] for score in whole]
    assert not any("provenance" in score for score in found)
    assert all(score["metrics"] == other["metrics"] for score, other in zip(found, whole, strict=True))
    models = measured.api.get("/v1/models", scored=True).value["items"]
    assert {model["name"] for model in models} == {"builtin", OTHER}
    assert all("previous" not in model for model in models), "they are of two sizes"


async def test_a_base_gives_marks_and_says_what_was_lost(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        await scores(hands)
        text = await hands.press("b", see=("baseline: builtin", "demo_arith ▼"))
        assert matrix(hands).chosen == "builtin"
        assert "▼" in next(line for line in text.splitlines() if OTHER in line)
        await hands.press("j", see=("against builtin j2", "p "))
        await hands.press("k", "b", see="baseline: for each model the pinned one")
        await hands.gone("demo_arith ▼")


async def test_intervals_metric_group_and_trend(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        await scores(hands)
        assert "±" not in next(line for line in hands.text.splitlines() if line.lstrip().startswith("builtin"))
        await hands.press("i", see=f"{rate(measured, 'builtin', 'demo_arith'):.1f}±")
        await hands.press("i")
        await hands.gone(f"{rate(measured, 'builtin', 'demo_arith'):.1f}±")
        await hands.press("g", see=("everything", "multi_choice", "models of 0.1b"))
        await hands.press("end", "enter", see=("1 model × 3", "models of 0.1b"))
        await hands.press("g", "down", "enter", see=("1 model × 1", "free_response"))
        await hands.press("g", "home", "enter", see="2 models × 3")
        await hands.press("m", see=("Metric", "the primary metric of each benchmark", "accuracy"))
        await hands.press("down", "enter", see="baseline: pinned, or previous model · accuracy")
        await hands.press("m", "home", "enter")
        await hands.gone("baseline: pinned, or previous model · accuracy")
        await hands.press("home", see="demo_arith over its runs")
        assert len(hands.app.query_one("#trend", Chart).points) == 2, "one checkpoint of this size: its runs are shown"
        await hands.press("end", see="over the checkpoints of 0.1b")
        await hands.press("t", "home", see="demo_arith over its runs")
        await hands.press("t", "end", see="over the checkpoints of 0.1b")


async def test_on_a_small_terminal_t_shows_the_curve_for_the_runs(measured: Any, pressing: Any) -> None:
    async with pressing(measured, size=(80, 24)) as hands:
        await hands.press("4", see=("2 models × 3", "CHANGE FROM PREVIOUS RUN"))
        await hands.press("t", see="demo_arith over its runs")
        await hands.gone("CHANGE FROM PREVIOUS RUN")
        await hands.press("t", "t", see="CHANGE FROM PREVIOUS RUN")


async def test_runs_say_what_differs_and_are_compared(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        await scores(hands)
        await hands.see("~ stages.answer.sampling.temperature", "first")
        await hands.press("tab", "c", see=("Compare › B = j3 against A = j2", "1 not comparable", "temperature"))
        await hands.press("escape", see="2 models × 3")
        await hands.press("enter", see="j3 › samples")


async def test_a_cell_leads_to_its_subjects_and_their_samples(measured: Any, pressing: Any) -> None:
    async with pressing(measured) as hands:
        await scores(hands)
        await hands.press("shift+right", see="own_quiz · 1 run")
        await hands.press("enter", see=("3 subjects, the worst first", "animals", "colours", "all subjects"))
        await hands.press("escape", see="own_quiz · 1 run")
        await hands.press("enter", "j", "enter", see=("j1", "animals", "of 24"))
        await hands.press("escape")
        await hands.gone("of 24")
        await hands.press("escape", see="subjects, the worst first")
        await hands.press("home", "enter", see="› samples")
        await hands.see("24 samples")
        await hands.press("escape", "escape", "shift+left", see="demo_arith · 2 runs")
        await hands.press("enter", see="› samples")
        await hands.see("40 samples")


async def test_what_never_ran_can_be_opened_and_says_so(measured: Any, pressing: Any) -> None:
    async with pressing(measured, read_only=True) as hands:
        await scores(hands)
        await hands.press("l", see="never run; R runs it")
        await hands.press("enter", see="has never run on demo_choice")
        await hands.press("R", see="read-only")
        await hands.press("h", see="demo_arith · 2 runs")


async def test_filter_sort_copy_and_export(measured: Any, pressing: Any, tmp_path: Path) -> None:
    async with pressing(measured) as hands:
        await scores(hands)
        await hands.press("slash")
        await hands.type("g1-0.1b")
        await hands.see("mean over the 3 that all have")
        await hands.press("enter")
        assert matrix(hands).chosen == OTHER
        await hands.press("escape", see="mean over the 2 that all have")
        await hands.press("greater_than_sign")
        assert [matrix(hands).listing.key_at(place) for place in (0, 1)] == ["builtin", OTHER]
        await hands.press("exclamation_mark")
        assert matrix(hands).listing.key_at(0) == OTHER
        await hands.press("i")
        table = matrix(hands)
        for name in ("out.csv", "out.md", "out.json"):
            await hands.press("x")
            hands.app.frame.prompt.field.value = str(tmp_path / name)
            await hands.press("enter")
            await soon(lambda file=tmp_path / name: file.exists() and file.stat().st_size, f"{name} is written")
        with (tmp_path / "out.csv").open() as file:
            rows = {row["model"]: row for row in csv.DictReader(file)}
        assert rows["builtin"]["demo_choice"] == ""
        assert rows["builtin"]["demo_arith"].startswith(f"{rate(measured, 'builtin', 'demo_arith'):.1f} ±")
        means = [
            (rate(measured, name, "demo_arith") + rate(measured, name, "own_quiz")) / 2 for name in (OTHER, "builtin")
        ]
        assert [row["mean"] for row in json.loads((tmp_path / "out.json").read_text())] == [
            f"{mean:.1f}" for mean in means
        ]
        assert (tmp_path / "out.md").read_text().startswith("| model | mean | worst | demo\\_arith |")
        assert table.copied() == rows[table.chosen]["demo_arith"]
        await hands.press("y", see=f": {table.copied()}")
        await hands.press("Y", see="rwkvctl scores --model")
        command = hands.app.query_one(Scores).command()
        assert command.startswith("rwkvctl scores --model ")
        found = measured.cli(*command.split()[1:], "-o", "json")
        assert len(json.loads(found.stdout)["items"]) >= 1


async def test_compare_shows_the_worst_first_and_every_flip(measured: Any, pressing: Any) -> None:
    sums = flipped(measured, "demo_arith")
    async with pressing(measured) as hands:
        await scores(hands)
        await hands.press("b", see="demo_arith ▼")
        await hands.press(
            "j", "c", see=("▼ worse", "McNemar, exact", "Holm over 2", "only B: demo_choice", f"lost {sums['only_a']}")
        )
        view = hands.app.query_one(Compare)
        first = view.family.listing.row(0)
        assert first.benchmark == "demo_arith"
        assert first.difference.value == sums["difference"]["value"]
        assert (first.p, first.p_holm) == (sums["p"], sums["p_holm"])
        assert {flip.row for flip in view.chosen.flips} == {flip["row"] for flip in sums["flips"]}
        assert all(flip.reason_b in {"wrong", "no_answer"} for flip in view.chosen.flips)
        await hands.see(f"{100 * sums['a']:.1f} ±", f"{100 * sums['b']:.1f} ±", "no answer", f"lost {sums['only_a']}")
        assert view.command() == f"rwkvctl compare builtin {OTHER} --benchmark demo_arith --flips"


async def test_flips_are_filtered_grouped_and_opened(measured: Any, pressing: Any, tmp_path: Path) -> None:
    lost = flipped(measured, "demo_arith")["only_a"]
    async with pressing(measured) as hands:
        await scores(hands)
        await hands.press("b", see="demo_arith ▼")
        await hands.press("j", "c", see=f"lost {lost}")
        flips = hands.app.query_one("#flips")
        await hands.press("f", see="showing lost")
        assert flips.count == lost
        await hands.press("x")
        hands.app.frame.prompt.field.value = str(tmp_path / "family.csv")
        await hands.press("enter", see="2 rows written")
        await hands.press("tab", "x")
        hands.app.frame.prompt.field.value = str(tmp_path / "flips.csv")
        await hands.press("enter", see=f"{lost} rows written")
        assert "cut off" not in (tmp_path / "flips.csv").read_text()
        await hands.press("shift+tab", "Y", see=f"rwkvctl compare builtin {OTHER} --benchmark demo_arith --flips")
        await hands.press("f", see="showing gained")
        assert flips.count == 0
        await hands.press("f", see="showing all")
        await hands.press("g")
        await hands.settled()
        reasons = [flips.listing.row(place).reason for place in range(flips.count)]
        assert reasons == sorted(reasons)
        assert len(set(reasons)) == 2
        await hands.press("right_parenthesis", see=f"Flips {len(flipped(measured, 'own_quiz')['flips'])} of 24")
        await hands.press("left_parenthesis", see=f"lost {lost}")
        await hands.press("B", see=(f"B = builtin against A = {OTHER}", "▲ better", f"gained {lost}"))
        await hands.press("escape", see=("▼ worse", f"lost {lost}"))  # its flips are asked for anew
        await hands.press("enter", "enter", see=("j2", "sample"))
        assert hands.app.places.here.name == "sample"
        row = flips.listing.row(0).view
        assert hands.app.places.here.about == f"j5:{row.sample_b}|j2:{row.sample_a}"
        await hands.press("escape", see="Worst first")


async def test_a_cell_is_measured_again_as_it_was_and_what_never_ran_for_the_first_time(
    fresh: Any, pressing: Any
) -> None:
    before = len(fresh.api.get("/v1/jobs").value["items"])
    async with pressing(fresh) as hands:
        await scores(hands)
        await hands.press(
            "R", see=("Run this job again?", "40 samples", "--set", "temperature=1.5", "nothing: existing scores")
        )
        await hands.press("escape")
        await hands.gone("Run this job again?")
        assert len(fresh.api.get("/v1/jobs").value["items"]) == before
        await hands.press("R", see="Run this job again?")
        await hands.press("y", see="queued j")
        assert hands.app.commands[-1].startswith("rwkvctl dispatch --models builtin --only-datasets demo_arith")
        newest = fresh.api.get("/v1/jobs").value["items"][0]
        assert (newest["benchmark"], newest["limit"], newest["version"] > 2) == ("demo_arith", 40, True)
        fresh.wait_for_state(newest["id"], "done")
        await hands.see("demo_arith · 3 runs", newest["id"])
        cells = matrix(hands).listing
        await soon(
            lambda: cells.row(0).cells["demo_arith", "free_response"].job == newest["id"], "its cell is the newest"
        )
        await hands.see("= +0.0")
        await hands.press("l", see="never run; R runs it")
        await hands.press("R", see=("Run this job again?", "demo_choice multi_choice_plain"))
        await hands.press("y")
        await soon(lambda: len(fresh.api.get("/v1/jobs").value["items"]) == before + 2, "the second is queued")
        newest = fresh.api.get("/v1/jobs").value["items"][0]
        assert (newest["model"], newest["benchmark"]) == ("builtin", "demo_choice")
        fresh.wait_for_state(newest["id"], "done")
        await hands.see("mean over the 3 that all have", newest["id"])
