"""Another judge for a running daemon: jobs that waited for the old one go on with the new one; and who is told."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_judge
import pytest

OWN = """
from dataclasses import replace

from rwkv_data.benchmark import by_name
from rwkv_data.benchmarks.demo_arith import BENCHMARK as SUMS
from rwkv_data.graders.judged import judged
from rwkv_data.graders.text import EXACT
from rwkv_data.judges import rule

KIND = replace(SUMS.default_kind, name="free_response_judge", grader=judged(EXACT, rule("rwkv-skills-v1")))
BENCHMARK = replace(SUMS, name="reloaded_sums", kinds=by_name([KIND]))
"""
JUDGE = """
[judge]
model = "{model}"
[[judge.endpoints]]
base_url = "{url}"
keys_file = "{keys}"
"""


@pytest.fixture
def judges() -> Iterator[list[Any]]:
    """Two judges on loopback; the first is away."""
    away = fake_judge.FakeJudge(behave=lambda _: fake_judge.Do("down", status=503))
    with fake_judge.in_thread(away), fake_judge.in_thread(fake_judge.FakeJudge()) as other:
        yield [away, other]


@pytest.fixture
def judged(new_node: Any, judges: list[Any], tmp_path: Path) -> Any:
    """A node whose judge is away, and somebody who is told of that."""
    folder = tmp_path / "config" / "rwkvctl"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "reloaded_sums.py").write_text(OWN)
    keys = tmp_path / "keys"
    keys.write_text("k" * 20 + "\n")
    keys.chmod(0o600)
    node = new_node()
    node.engines_do(texts={"=": "none"})  # so that the judge is asked about every sample
    node.settings["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    command = f'["sh", "-c", "cat > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/told"]'
    told = f'[[notify]]\nevents = ["judge-outage"]\ncommand = {command}\n'

    def use(model: str, judge: Any) -> None:
        table = JUDGE.format(model=model, url=judge.url, keys=keys)
        (folder / "config.toml").write_text(told + table)

    node.use, node.keys, node.told = use, keys, tmp_path / "told"
    use("judge-a", judges[0])
    return node.start()


def test_jobs_that_wait_for_a_judge_go_on_with_the_next_one(judged: Any, judges: list[Any]) -> None:
    node = judged
    (name,) = node.dispatch(only_datasets=["reloaded_sums"], limit=6)
    node.wait_for_state(name, "judging")
    node.until(lambda: judges[0].asked, "the judge that is away was asked")
    node.until(node.told.exists, "somebody is told of the outage")
    assert json.loads(node.told.read_text())["event"] == "judge-outage"
    node.use("judge-b", judges[1])
    assert node.api.post("/v1/reload", {}).value["changed"] == ["judge: judge-b from now on"]
    job = node.wait_for_state(name, "done", "failed")
    assert job["score"]["provenance"]["judge"]["model"] == "judge-b"
    assert "unjudged" not in job["score"]
    before = len(judges[1].asked)
    assert node.api.post("/v1/reload", {}).value.get("changed", []) == []
    node.keys.write_text("n" * 20 + "\n")  # a new key in the same file
    assert node.api.post("/v1/reload", {}).value["changed"] == ["judge: judge-b from now on"]
    (again,) = node.dispatch(only_datasets=["reloaded_sums"], limit=7)
    node.wait_for_state(again, "done")
    assert {asked.key for asked in judges[1].asked[before:]} == {"n" * 20}
