"""The benchmark scripts, each in its smallest form, and the arithmetic with which their figures are compared."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
BENCH = ROOT / "bench"


def run(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1", **env}, capture_output=True, text=True, check=False
    )


def script(name: str, *flags: str) -> str:
    done = run(sys.executable, f"bench/{name}", *flags)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


BENCH_RUN = pytest.mark.slow("bench")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the report of a dry run of everything."""
    pytest.importorskip("triton", reason="needs triton: not installed")
    file = tmp_path_factory.mktemp("bench") / "engine.json"
    shown = script(
        "engine.py", "--device", "cpu", "--tiny", "--sizes", "1.5B", "--numerics", "fast", "--json", str(file)
    )
    assert "E/M" in shown
    return json.loads(file.read_text())


def of(report: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [record for record in report["records"] if record["kind"] == kind]


@BENCH_RUN
def test_a_small_run_has_its_feedback() -> None:
    shown = script("feedback.py", "--checkpoints", "4", "--benchmarks", "2", "--rows", "40")
    assert "cold: wall" in shown
    assert "4 checkpoints, 2 benchmarks of 40 rows each" in shown


@BENCH_RUN
def test_a_run_says_what_it_ran_on(report: dict[str, Any]) -> None:
    assert {"date", "commit", "device", "driver", "cpu", "system", "versions", "cuda"} <= set(report["machine"])
    assert min(report["roofline"].values()) > 0
    assert report["tiny"]


@BENCH_RUN
def test_nothing_is_measured_before_the_gate(report: dict[str, Any]) -> None:
    kinds = [record["kind"] for record in report["records"]]
    assert kinds[:2] == ["gate", "gate"], "a whole small model, and the size's own width"
    assert kinds.count("gate") == 2
    for gate in of(report, "gate"):
        assert gate["good"]
        assert gate["same"] + gate["near"] == gate["drawn"] > 0


@BENCH_RUN
def test_every_class_has_a_median_and_its_spread(report: dict[str, Any]) -> None:
    (decode,), (prefill,), (serving,) = (of(report, kind) for kind in ("decode", "prefill", "serving"))
    assert set(decode["tok_s"]) == {"M", "S", "E", "E+"}
    assert set(prefill["tok_s"]) == {"M", "eager", "G", "E"}
    assert set(prefill["host_s"]) == {"eager", "G"}
    for record in (decode, prefill, serving):
        for found in record["tok_s"].values():
            assert 0 < found["low"] <= found["median"] <= found["high"]
    assert decode["engine_share"] == pytest.approx(decode["tok_s"]["E"]["median"] / decode["tok_s"]["M"]["median"])
    assert set(decode["of_roof"]) == set(prefill["of_roof"]) == {"measured", "H200"}
    assert serving["requests"] == 3 * serving["batch"]
    assert serving["bytes"] > 0
    assert [record["part"] for record in of(report, "memory")] == ["decode", "prefill"]


@BENCH_RUN
def test_a_peer_is_compared_or_said_to_be_missing(report: dict[str, Any]) -> None:
    rwkv, fla = of(report, "peer")
    assert set(rwkv.get("ratio", ())) == {"decode", "prefill"} or rwkv["failed"] == "not installed"
    assert fla["failed"] in {"not installed", "runs on a GPU only"}


def test_without_a_gpu_there_are_no_figures() -> None:
    if Path("/dev/nvidia0").exists():
        pytest.skip("this machine has a GPU")
    assert script("engine.py").startswith("no GPU here")


@pytest.mark.usefixtures("speed")
@pytest.mark.parametrize(
    ("size", "item", "ceilings"),
    [
        ("0.1B", 4, {1: 15011, 8: 106885, 128: 592862, 1024: 652884}),
        ("1.5B", 4, {1: 1529, 8: 11494, 32: 38088, 128: 90356, 512: 104910}),
        ("1.5B", 2, {1: 1536, 32: 42866, 1024: 151384}),
        ("7.2B", 4, {1: 309, 32: 8573, 1024: 29889}),
    ],
)
def test_the_roofline_is_the_published_one(size: str, item: int, ceilings: dict[int, int]) -> None:
    from speed.roofline import Roof, dims_of

    roof = Roof("H200", 4.3e12, 790e12)
    for batch, tok_s in ceilings.items():
        assert batch / roof.decode_s(dims_of(size), batch, item) == pytest.approx(tok_s, rel=2e-3)


@pytest.mark.usefixtures("speed")
def test_parameters_and_prefill_are_the_published_ones() -> None:
    from speed.roofline import Roof, dims_of, parameters

    published = {"0.1B": 191034624, "0.4B": 450767872, "1.5B": 1527404544, "2.9B": 2947735040, "7.2B": 7199141888}
    assert {size: parameters(dims_of(size)) for size in published} == published
    assert 1 / Roof("H200", 4.3e12, 790e12).prefill_s(dims_of("1.5B"), 1) == pytest.approx(314e3, rel=2e-3)


@pytest.mark.usefixtures("speed")
def test_targets_are_judged_on_the_card_they_are_about() -> None:
    from speed import targets

    def states(size: str, kind: str, batch: int, tok_s: float, share: float, device: str) -> list[object]:
        wanted = targets.of_speed(size, kind, batch, tok_s, share, device)
        return [target.as_json(measured=True)["state"] for target in wanted]

    assert states("1.5B", "decode", 1, 900.0, 0.61, "NVIDIA H200") == ["met", "met"]
    assert states("1.5B", "decode", 1, 850.0, 0.59, "NVIDIA H200") == ["missed", "missed"]
    assert states("1.5B", "decode", 8, 5098.0, 0.1, "NVIDIA H200") == ["met"]
    assert states("1.5B", "decode", 1, 900.0, 0.61, "NVIDIA L4") == ["met"], "no published speed there"
    assert states("1.5B", "prefill", 32, 207000.0, 0.1, "NVIDIA H200") == ["missed"]
    assert states("7.2B", "decode", 512, 1.0, 0.76, "NVIDIA H100 80GB HBM3") == ["met"]
    assert targets.of_engine(8, 0.5) == []
    assert targets.of_engine(128, 0.94)[0].as_json(measured=True)["state"] == "missed"
    assert targets.of_exact("decode", 0.09).as_json(measured=True)["state"] == "met"
    assert targets.of_exact("prefill", 0.16).as_json(measured=False)["state"] == "open"


@pytest.mark.usefixtures("speed")
def test_a_wrong_model_fails_its_gate() -> None:
    from speed.gate import GateResult

    assert GateResult(kl=1e-5, relative=1e-3, same=15, near=1, drawn=16).good
    assert not GateResult(kl=1e-3, relative=1e-3, same=16, near=0, drawn=16).good
    assert not GateResult(kl=1e-5, relative=1e-3, same=15, near=0, drawn=16).good


@BENCH_RUN
def test_the_prefix_cache_is_compared_with_none() -> None:
    shown = script("prefix_cache.py", "--tiny", "--slots", "1")
    assert "4 hits" in shown
    assert "x as fast with it" in shown
    assert "x as fast from kept states" in shown


@BENCH_RUN
def test_streams_are_compared_with_whole_answers() -> None:
    shown = script("streams.py", "--batches", "32", "--seconds", "0.2")
    assert re.findall(r"^  (whole|all woken|ours) +[0-9,]+ tokens/s", shown, re.MULTILINE) == [
        "whole",
        "all woken",
        "ours",
    ]


@BENCH_RUN
def test_the_cpu_engine_is_compared_with_the_package() -> None:
    pytest.importorskip("rwkv", reason="needs rwkv: not installed")
    shown = script("engine_tokens.py", "--small", "--tokens", "1", "--rounds", "1")
    assert "fp32 / rwkv (batch 1)" in shown


STUB = """#!/bin/sh
case "$*" in
    *"-m pytest"*) echo "one test failed"; exit 3 ;;
    *"-m rwkv_engine"*) echo verified ;;
    *"--parts peers"*) exit 124 ;;
    *bench/engine.py*) for file; do :; done; echo '{"records": []}' > "$file" ;;
    *table.py*) echo "told: $2" ;;
    *) exit 0 ;;
esac
"""


def test_the_gpu_script_goes_on_after_a_step_that_fails(tmp_path: Path) -> None:
    stub = tmp_path / "python"
    stub.write_text(STUB)
    stub.chmod(0o755)
    out = tmp_path / "out"
    env = {"PYTHON": str(stub), "OUT": str(out), "DEVICE": "cpu"}
    done = run("bash", "bench/gpu.sh", "1.5B", "tests", "verify", "engine", "peers", **env)
    assert done.returncode == 1
    summary = (out / "summary.txt").read_text()
    assert summary in done.stdout
    assert "FAILED    tests: exit code 3" in summary
    assert "ok        verify builtin exact" in summary
    assert "ok        engine" in summary
    assert "timed out peers" in summary, "the code that `timeout` gives"
    assert f"told: {out}/engine.json" in summary
    assert "one test failed" in (out / "checks.log").read_text()
    assert len(list(out.iterdir())) <= 8


def test_the_gpu_script_begins_nothing_that_it_has_no_time_for(tmp_path: Path) -> None:
    stub = tmp_path / "python"
    stub.write_text(STUB)
    stub.chmod(0o755)
    env = {"PYTHON": str(stub), "OUT": str(tmp_path / "out"), "DEVICE": "cpu", "BUDGET_S": "0"}
    done = run("bash", "bench/gpu.sh", "1.5B", "kernels", **env)
    assert done.returncode == 1
    assert "not run   bench_gemm: no time was left" in (tmp_path / "out" / "summary.txt").read_text()


def test_the_gpu_script_says_that_all_is_well(tmp_path: Path) -> None:
    stub = tmp_path / "python"
    stub.write_text(STUB)
    stub.chmod(0o755)
    done = run("bash", "bench/gpu.sh", "0.1B", "verify", PYTHON=str(stub), OUT=str(tmp_path / "out"), DEVICE="cpu")
    assert done.returncode == 0, done.stdout


@BENCH_RUN
def test_recipes_are_measured_in_small() -> None:
    shown = script("recipes.py", "--samples", "800", "--benchmark-rows", "300")
    assert re.search(r"mix: rows made and exported +\d+\.\d+ s", shown), shown


@BENCH_RUN
def test_rewritings_that_wait_are_measured_in_small() -> None:
    shown = script("waiting_rewritings.py", "--samples", "800", "--benchmark-rows", "300", "--seconds", "1")
    for name, unit in (
        ("recipe check, the first: wall", "s"),
        ("daemon, rewritings wait: more than idle", "MB"),
        ("daemon, rewritings wait: CPU over 1 s", "%"),
        ("its runner: memory", "MB"),
        ("status: wall, median of 5", "s"),
        ("samples j1 --limit 1: wall, median of 5", "s"),
    ):
        assert re.search(rf"^{name} +-?\d+\.\d+ {unit}", shown, re.MULTILINE), shown
    assert re.search(r"^requests without an answer +16\.00", shown, re.MULTILINE), shown


@BENCH_RUN
def test_merging_an_adapter_is_compared_with_a_copy() -> None:
    shown = script(
        "adapter_merge.py", "--layers", "2", "--width", "128", "--rank", "8", "--rounds", "1", "--pause", "0"
    )
    assert re.findall(r"^(\w+): (first|next) merge, times a copy", shown, re.MULTILINE) == [
        (kind, which) for kind in ("lora", "bone", "bat") for which in ("first", "next")
    ]
