"""What was done, asked of a real daemon: repetition, the job log, events, figures, the manual."""

import csv
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Any

import pytest

LINE = "rwkvctl dispatch --models builtin --only-datasets demo_arith --only-jobs free_response"


@pytest.fixture(scope="module")
def measured(module_node: Any) -> Any:
    """A node with two finished jobs, j1 and j2, for tests that only read."""
    node = module_node().start()
    for limit, settings in ((1, {}), (2, {"k": "2"})):
        (job,) = node.dispatch(limit=limit, settings=settings)
        node.wait_for_state(job, "done")
    return node


@pytest.fixture
def configured(new_node: Any, tmp_path: Path) -> Any:
    """A node with a folder for its configuration."""
    node = new_node()
    node.settings["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    (tmp_path / "config" / "rwkvctl").mkdir(parents=True)
    return node


def overrides(node: Any) -> Path:
    return Path(node.settings["XDG_CONFIG_HOME"]) / "rwkvctl" / "benchmarks.toml"


def test_the_line_that_repeats_a_job_does_the_same_work(configured: Any) -> None:
    overrides(configured).write_text("[demo_arith]\ntemperature = 0.7\n")
    node = configured.start()
    (job,) = node.dispatch(limit=3, seed=11, settings={"k": "2", "top_p": "0.5"})
    done = node.wait_for_state(job, "done")
    line = node.cli("show", job, "--repro").stdout.strip()
    assert line.startswith(f"{LINE} --limit 3 --seed 11 --numerics fp32 --set ")
    assert {"temperature=0.7", "top_p=0.5", "k=2"} <= set(shlex.split(line))
    overrides(node).write_text("[demo_arith]\ntemperature = 0.1\ntop_k = 3\n")  # what stands now does not matter
    node.api.post("/v1/reload", {})
    line = node.cli("show", job, "--repro").stdout.strip()
    again = json.loads(node.cli(*shlex.split(line)[1:], "--json").stdout)
    assert node.job(again["jobs"][0])["generation_key"] == done["generation_key"]
    repeated = node.wait_for_state(again["jobs"][0], "done")
    assert repeated["version"] == 2
    assert node.answers_of(again["jobs"][0]) == node.answers_of(job)


def test_a_repetition_that_would_be_other_work_says_what_is_another(configured: Any) -> None:
    checkpoint = configured.add_model("mine")
    node = configured.start()
    (job,) = node.dispatch(models=["mine"], limit=1)
    node.wait_for_state(job, "done")
    assert node.cli("show", job, "--repro").returncode == 0
    checkpoint.unlink()
    done = node.cli("show", job, "--repro", check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("rwkvctl dispatch --models mine ")
    assert "no model" in done.stderr


def test_the_job_log_in_every_form(measured: Any) -> None:
    node, first, second = measured, "j1", "j2"
    reply = json.loads(node.cli("job-log", "--json").stdout)
    assert [item["job"] for item in reply["items"]] == [second, first]
    newest = reply["items"][0]
    me = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert (newest["user"], newest["settings"], newest["samples"]) == (me, {"k": "2"}, 4)
    assert newest["config"] == node.job(second)["generation_key"]
    rows = list(csv.DictReader(io.StringIO(node.cli("job-log", "--all", "--format", "csv").stdout)))
    assert [row["job"] for row in rows] == [second, first]
    assert rows[1]["limit"] == "1"
    markdown = node.cli("job-log", "--format", "markdown", "--limit", "1").stdout.splitlines()
    assert len(markdown) == 3
    assert f"| {second} |" in markdown[2]
    assert json.loads(node.cli("job-log", "--json", "--all").stdout)["items"] == reply["items"]
    assert "no job" in node.cli("job-log", "--since", "2999-01-01", "-o", "table").stdout
    assert node.cli("job-log", "--since", "soon", check=False).returncode == 2


def test_events_from_the_beginning_of_a_kind_and_live(node: Any, tools: Any) -> None:
    (job,) = node.dispatch(limit=1)
    node.wait_for_state(job, "done")
    lines = node.cli("events", "--since", "0", "--kind", "job").stdout.splitlines()
    assert lines.pop(0) == "event\tat\tkind\tabout\ttext"
    assert [line.split("\t")[2] for line in lines][-1] == "job.score"
    assert all(line.split("\t")[2].startswith("job.") for line in lines)
    stored = [json.loads(line) for line in node.cli("events", "--since", "1h", "--json").stdout.splitlines()]
    assert [event["seq"] for event in stored] == list(range(1, len(stored) + 1))
    node.api.post("/v1/pause", {"queue": True})  # from here on nothing need be run
    follower = subprocess.Popen(
        [sys.executable, "-u", "-m", "rwkvctl.cli", "events", "-f", "--since", "0", "--kind", "session"],
        env=node.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        os.set_blocking(follower.stdout.fileno(), False)
        seen: list[bytes] = []

        def heard() -> bool:
            seen.append(follower.stdout.read() or b"")
            return b"1 job queued" in b"".join(seen)

        node.dispatch(limit=2)
        tools.wait_for(heard, "the dispatch is shown")
        node.terminate()
        node.start()
        seen.clear()
        node.dispatch(limit=3)
        tools.wait_for(heard, "it goes on with the next daemon")
    finally:
        follower.kill()
        follower.wait()


def test_figures_are_read_by_prometheus_own_parser(measured: Any) -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="needs prometheus_client: not installed")
    node = measured
    page = node.cli("metrics").stdout
    found = {family.name: family for family in parser.text_string_to_metric_families(page)}
    value = {sample.labels.get("state"): sample.value for sample in found["rwkvctl_jobs"].samples}
    assert (value["done"], value["failed"], value["queued"]) == (2, 0, 0)
    assert found["rwkvctl_samples"].samples[0].value == 1 + 2 * 2
    tokens = found["rwkvctl_engine_decode_tokens"].samples[0]
    assert tokens.labels["model"] == "builtin"
    assert found["process_resident_memory_bytes"].samples[0].value > 2**20
    assert {"rwkvctl_event_loop_lag_seconds", "rwkvctl_store_bytes", "rwkvctl_queue_oldest_seconds"} <= found.keys()
    same = json.loads(node.cli("metrics", "--json").stdout)["items"]
    assert {item["name"] for item in same} >= {"rwkvctl_jobs", "process_open_fds"}


def test_show_has_the_whole_job(measured: Any) -> None:
    node, job = measured, "j1"
    shown = dict(line.split("\t") for line in node.cli("show", job).stdout.splitlines())
    assert (shown["job"], shown["state"], shown["samples"]) == (job, "done", "1")
    assert shown["generation key"] == node.job(job)["generation_key"]
    assert node.cli("show", "j99", check=False).returncode == 4


def test_every_page_of_the_manual_is_good_groff(tmp_path: Path) -> None:
    if which("groff") is None:
        pytest.skip("needs groff: not installed")
    words = [sys.executable, "-m", "rwkvctl.cli", "man", "--install", str(tmp_path)]
    subprocess.run(words, check=True, capture_output=True)
    pages = sorted(tmp_path.rglob("*.[158]"))
    assert {page.parent.name for page in pages} == {"man1", "man5", "man8"}
    groff = ["groff", "-man", "-Tutf8", "-ww", "-rCHECKSTYLE=3", *map(str, pages)]
    done = subprocess.run(groff, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "RWKVCTL.TOML(5)" in done.stdout
