"""What the screens Data and Weights show of benchmarks and checkpoints."""

from typing import Any

import msgspec
import pytest

from rwkvctl.protocol.views import BenchmarkView, EngineView, LeaseView, MetricView, ModelView, ScoreView
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.node import benchmark_columns, weight_columns
from rwkvctl.tui.scores import summary
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.table_columns import text_of

GIB = 2**30
METRIC = MetricView(value=0.5, ci_low=0.4, ci_high=0.6)


def text(lines: list[Pieces]) -> str:
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


def cells(columns: Any, row: Any) -> dict[str, str]:
    return {column.title: text_of(column.cell(row)) for column in columns}


def score(model: str = "m", benchmark: str = "gsm8k", **more: Any) -> ScoreView:
    return ScoreView(job="j7", model=model, benchmark=benchmark, kind="cot", version=1, primary="accuracy",
                     metrics={"accuracy": METRIC}, n=1319, rows=1319, repeats=1, finished="2026-11-22T02:00:00Z",
                     **more)  # fmt: skip


def benchmark(name: str = "gsm8k", **more: Any) -> BenchmarkView:
    return BenchmarkView(name=name, title="School maths", domain="free_response", kinds=("plain", "cot", "x"),
                         usual=("cot",), version=1, split="test", source="hub openai/gsm8k",
                         upstream="hub openai/gsm8k", **more)  # fmt: skip


def test_what_needs_somebody_comes_first_then_what_can_run() -> None:
    items = [benchmark("a"), benchmark("b", ready=True, rows=10), benchmark("c", damaged=True, problem="other sha256")]
    rows = benchmark_columns.sets_of(items, [score(benchmark="b")])
    assert [row.item.name for row in rows] == ["c", "b", "a"]
    assert [text_of(benchmark_columns.state_cell(row)) for row in rows] == ["! damaged", "✓ ready", "– missing"]
    assert benchmark_columns.tally(items) == "3 known · 1 ready · 1 missing · 1 damaged"
    assert cells(benchmark_columns.BENCHMARKS, rows[1])["LAST SCORE"] == "50.0 ±10.0 m"
    assert cells(benchmark_columns.BENCHMARKS, rows[2])["LAST SCORE"] == "–"


def test_a_benchmark_says_why_it_cannot_run_and_that_nobody_saw_its_rows() -> None:
    item = benchmark(problem="gsm8k is not prepared in /d", schema_verified=False, rows_complete=1319)
    row = benchmark_columns.BenchmarkRow(item)
    shown = cells(benchmark_columns.BENCHMARKS, row)
    assert (shown["ROWS"], shown["SCHEMA"], shown["KINDS"]) == ("1,319", "! untried", "cot +2")
    said = text(benchmark_columns.about(row))
    for words in ("not prepared in /d", "check its prompts", "plain, x", "hub openai/gsm8k", "never run"):
        assert words in said


def test_preparing_names_the_sets_their_sources_and_the_command() -> None:
    said = text(benchmark_columns.question([benchmark(f"b{n}") for n in range(8)]))
    for words in ("Prepare 8 benchmarks?", "b5 ", "and 2 more", "hub openai/gsm8k", "rwkvctl data prepare b0 b1"):
        assert words in said


def test_preparing_again_says_where_it_fetches_from_and_not_where_the_rows_came_from() -> None:
    item = msgspec.structs.replace(benchmark(ready=True, rows=7, prepared="2026-11-22"), source="/tmp/mine.jsonl")
    assert "from /tmp/mine.jsonl, prepared 2026-11-22" in text(
        benchmark_columns.about(benchmark_columns.BenchmarkRow(item))
    )
    assert "rows from hub openai/gsm8k" in text(benchmark_columns.question([item]))


def test_scores_stand_below_one_another_and_what_is_left_out_is_said() -> None:
    lines = summary.lines([score(f"model-{n}" + "x" * n * 9) for n in range(5)], 3, of_model=False)
    assert len({line[2][0] and len(line[1][0]) for line in lines[:3]}) == 1
    assert "and 2 more" in text(lines)
    assert "gsm8k" in text(summary.lines([score()], 3, of_model=True))
    assert summary.text(msgspec.structs.replace(score(), primary="nothing")) == "–"


def model(name: str = "m", **more: Any) -> ModelView:
    return ModelView(name=name, path=f"/w/{name}.pth", size_bytes=6 * GIB, **({"need_bytes": 7 * GIB} | more))


def lease(index: str, size: int | None, use: str = "free") -> LeaseView:
    return LeaseView(id=f"GPU-{index}", index=index, use=use, memory_total_bytes=size)


STATE = ConsoleState(
    leases={"0": lease("0", 80 * GIB), "1": lease("1", 4 * GIB), "2": lease("2", 80 * GIB, "zombie"),
            "cpu": LeaseView(id="cpu:0", name="CPU")},
    engines={
        "e1": EngineView(id="e1", model="m", numerics="fast", lease="GPU-0", state="ready", slots=64),
        "e2": EngineView(id="e2", model="n", numerics="fast", lease="GPU-0", state="loading"),
        "e3": EngineView(id="e3", model="m", numerics="fast", lease="GPU-1", state="unloading"),
    },
)  # fmt: skip


def test_a_checkpoint_says_where_it_fits_what_is_loaded_and_how_often_it_was_measured() -> None:
    row, loading, cold = weight_columns.rows_of([model(), model("n"), model("o")], [score(), score("n")] * 2, STATE)
    shown = cells(weight_columns.WEIGHTS, row)
    assert (shown["STATE"], shown["FITS"], shown["ENGINES"], shown["SCORES"]) == ("▸ warm", "✓ 0,2", "e1", "2")
    assert text_of(weight_columns.state_cell(loading)) == "◌ loading"
    assert text_of(weight_columns.state_cell(cold)) == "· cold"
    said = weight_columns.fits_sentence(row)
    assert said == (
        "needs at least 7.0 GiB, the largest device has 80.0 GiB, fits 2 of 3 devices, of which 2 cannot be used now"
    )
    assert "e1 ready on GPU-0 (fast, 0/64)" in text(weight_columns.about(row, {}))
    assert weight_columns.tally([row, loading, cold]) == "3 checkpoints · 18.0 GiB · 2 warm"


@pytest.mark.parametrize(
    ("item", "fits"),
    [(model(need_bytes=300 * GIB), "✗ none"), (model(need_bytes=GIB), "✓ all"), (model(need_bytes=0), "✓ all")],
)
def test_too_large_for_every_device_is_said(item: ModelView, fits: str) -> None:
    (row,) = weight_columns.rows_of([item], [], STATE)
    assert text_of(weight_columns.fits(row)) == fits


def test_the_cpu_counts_only_where_there_is_no_gpu() -> None:
    assert [one.id for one in weight_columns.devices(STATE.leases.values())] == ["GPU-0", "GPU-1", "GPU-2"]
    assert [one.id for one in weight_columns.devices([LeaseView(id="cpu:0")])] == ["cpu:0"]
    assert text_of(weight_columns.fits(weight_columns.CheckpointRow(model()))) == "–"


def test_damaged_weights_say_so_and_tensors_are_told_when_they_are_known() -> None:
    row = weight_columns.CheckpointRow(model(broken="it is truncated"))
    assert text_of(weight_columns.state_cell(row)) == "✗ damaged"
    assert "it does not load: it is truncated" in text(
        weight_columns.about(row, {"detail": "no checkpoint of tensors"})
    )
    assert "no checkpoint of tensors" in text(weight_columns.about(row, {"detail": "no checkpoint of tensors"}))
    shown = {"layers": 4, "width": 128, "heads": 2, "head_size": 64, "vocabulary": 257, "tensors": 135,
             "parameters": 940160, "dtypes": ["bfloat16"], "layout": "blinkdl", "state_bytes": 135168}  # fmt: skip
    said = text(weight_columns.about(row, shown))
    for words in ("4 layers, width 128", "135 of 940,160 numbers in bfloat16", "132 KiB"):
        assert words in said
    gone = weight_columns.CheckpointRow(ModelView(name="x", path="", size_bytes=0))
    assert text_of(weight_columns.state_cell(gone)) == "– gone"
