"""What a dispatch of a harness means, and what it is refused for."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from harness_folders import MANIFEST, built, harness

from rwkv_daemon.harness import facts, installation
from rwkv_daemon.rules.plan import KindFact, SelectionError
from rwkv_daemon.store import JobRow
from rwkvctl.protocol.requests import Selection


def asked(*tasks: str, **more: Any) -> Selection:
    return Selection(harness="mine", only_datasets=tasks, **more)


def one_fact(folder: Path, *, text: str = MANIFEST, **more: Any) -> KindFact:
    here, _, _ = built(folder, "gsm8k", "gsm_plus", "arc", text=text)
    return facts.kind_facts(asked("gsm8k", **more), here)[0]


def test_a_task_is_a_kind_that_says_everything_that_decides_its_result(tmp_path: Path) -> None:
    fact = one_fact(tmp_path, settings={"shots": "5", "max_tokens": "64"}, seed=3, limit=10)
    assert (fact.benchmark, fact.kind, fact.profile) == ("mine:gsm8k", "harness.mine@1.2", "harness:mine@1.2")
    assert (fact.rows, fact.harness, fact.domain) == (None, "mine", "harness")
    assert fact.configuration["settings"] == {"limit": "10", "max_tokens": "64", "seed": "3", "shots": "5"}
    assert (fact.configuration["seed"], fact.configuration["max_tokens"]) == (3, 64)


def test_a_changed_manifest_is_other_work_and_an_equal_one_is_not(tmp_path: Path) -> None:
    first = one_fact(tmp_path)
    assert one_fact(tmp_path).rows_sha256 == first.rows_sha256
    assert one_fact(tmp_path, text=MANIFEST + "# changed\n").rows_sha256 != first.rows_sha256


def test_tasks_keep_their_order_once_each_without_those_to_skip(tmp_path: Path) -> None:
    here, _, _ = built(tmp_path, "a", "b", "c")
    found = facts.kind_facts(asked("c", "a", "c", "b", skip_datasets=("b",)), here)
    assert [fact.benchmark for fact in found] == ["mine:c", "mine:a"]


@pytest.mark.parametrize("selection", [asked("gsm9k"), asked("arc", skip_datasets=("gsm9k",))])
def test_an_unknown_task_is_refused_with_near_names(tmp_path: Path, selection: Selection) -> None:
    here, _, _ = built(tmp_path, "gsm8k", "gsm_plus", "arc")
    with pytest.raises(SelectionError, match=r"mine has no task gsm9k \(near it: gsm8k.*harness tasks mine"):
        facts.kind_facts(selection, here)


@pytest.mark.parametrize(
    ("selection", "why"),
    [
        (asked(), "--harness needs the tasks"),
        (asked("a", skip_datasets=("a",)), "name 1 to 500 tasks of mine, not 0"),
        (asked("a", only_jobs=("x",)), "--only-jobs cannot be combined"),
        (asked("a", domains=("x",)), "--domains cannot be combined"),
        (asked("a", suite="x"), "--suite cannot be combined"),
        (asked("a", hold_missing=True), "--hold-missing cannot be combined"),
        (Selection(harness="other", only_datasets=("a",)), "There is no harness other"),
    ],
)
def test_what_means_nothing_for_a_harness_is_refused(tmp_path: Path, selection: Selection, why: str) -> None:
    here, _, _ = built(tmp_path, "a")
    with pytest.raises(SelectionError, match=why):
        facts.kind_facts(selection, here)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"no_such": "1"}, "--set no_such: mine has no such setting; it has max_tokens, shots"),
        ({"shots": "--flag"}, "cannot be given"),
        ({"shots": "-5"}, "cannot be given"),
        ({"shots": ""}, "cannot be given"),
        ({"shots": "a\nb"}, "cannot be given"),
        ({"shots": "a\0"}, "cannot be given"),
        ({"shots": "x" * 401}, "cannot be given"),
        ({"max_tokens": "0"}, "takes a number of tokens"),
        ({"max_tokens": "-1"}, "takes a number of tokens"),
        ({"max_tokens": "many"}, "takes a number of tokens"),
        ({"max_tokens": "²"}, "takes a number of tokens"),
        ({"max_tokens": "1048577"}, "takes a number of tokens"),
        ({"max_tokens": "9" * 5000}, "takes a number of tokens"),
        ({"seed": "abc"}, "give it as --seed"),
        ({"limit": "0.5"}, "give it as --limit"),
    ],
)
def test_a_setting_that_a_harness_does_not_have_is_refused(tmp_path: Path, settings: Any, why: str) -> None:
    _, mine, _ = built(tmp_path, "a")
    with pytest.raises(SelectionError, match=why):
        facts.settings_of(asked("a", settings=settings), mine)


def test_a_limit_is_refused_by_a_harness_without_one(tmp_path: Path) -> None:
    _, mine, _ = built(tmp_path, "a", text=MANIFEST.replace('limit = ["--limit", "{value}"]\n', ""))
    with pytest.raises(SelectionError, match="--limit: mine has no such setting"):
        facts.settings_of(asked("a", limit=5), mine)


@pytest.mark.parametrize("value", ["5", "temperature=0.7,do_sample=true", '{"a": [1]}', "é"])
def test_values_as_harnesses_take_them_pass(tmp_path: Path, value: str) -> None:
    _, mine, _ = built(tmp_path, "a")
    assert facts.settings_of(asked("a", settings={"shots": value}), mine) == {"shots": value}


def test_a_harness_that_is_not_built_is_refused_with_the_command_that_builds_it(tmp_path: Path) -> None:
    here, mine = harness(tmp_path)
    with pytest.raises(SelectionError, match="mine is not built; `rwkvctl harness build mine`"):
        facts.kind_facts(asked("a"), here)
    at = installation.Installation.of(here, mine)
    at.folder.mkdir(parents=True)
    at.log.write_text("no space\n")
    with pytest.raises(SelectionError, match=r"mine is broken \(no space\); `rwkvctl harness build mine`"):
        facts.kind_facts(asked("a"), here)


def test_own_tasks_that_have_changed_are_to_be_read_in(tmp_path: Path) -> None:
    here, _, _ = built(tmp_path, "a")
    own = here.harnesses_dir / "mine"
    own.mkdir()
    facts.kind_facts(asked("a"), here)  # an empty folder changes nothing
    (own / "a.yaml").write_text("task: a")
    with pytest.raises(SelectionError, match="have changed; `rwkvctl harness build mine`"):
        facts.kind_facts(asked("a"), here)


def test_a_folder_of_rows_beside_own_tasks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, _, _ = built(tmp_path, "a")
    (here.harnesses_dir / "mine").mkdir()
    (here.harnesses_dir / "mine" / "rows").write_text("1234")
    monkeypatch.setattr(installation, "MOST_OWN_BYTES", 3)
    with pytest.raises(SelectionError, match="keep rows elsewhere"):
        facts.kind_facts(asked("a"), here)


def test_a_job_of_another_version_is_to_be_dispatched_again(tmp_path: Path) -> None:
    here, _, _ = built(tmp_path, "a")
    fact = facts.kind_facts(asked("a", seed=3, limit=10, settings={"shots": "5"}), here)[0]
    assert facts.fact_of_job(here, job_of(fact)) == fact
    with pytest.raises(SelectionError, match=r"mine is 1\.2 by now"):
        facts.fact_of_job(here, job_of(replace(fact, kind="harness.mine@1.1")))


def job_of(fact: KindFact) -> JobRow:
    """What is read of a job that was dispatched with a fact."""
    settings, known = json.dumps(dict(fact.settings)), json.dumps(fact.configuration)
    one = SimpleNamespace(benchmark=fact.benchmark, kind=fact.kind, settings=settings, configuration=known)
    return cast(JobRow, one)


def test_a_job_keeps_the_own_tasks_that_it_was_dispatched_with(tmp_path: Path) -> None:
    here, _, at = built(tmp_path, "a")
    fact = facts.kind_facts(asked("a"), here)[0]
    at.own.mkdir()
    (at.own / "a.yaml").write_text("task: a")
    built(tmp_path, "a")
    assert facts.kind_facts(asked("a"), here)[0].rows_sha256 != fact.rows_sha256
    assert facts.fact_of_job(here, job_of(fact)) == fact
    at.copy_of_own("").rmdir()
    with pytest.raises(SelectionError, match="your own tasks of mine have changed since"):
        facts.fact_of_job(here, job_of(fact))


def test_own_tasks_change_nothing_about_those_that_are_shipped(tmp_path: Path) -> None:
    here, _, at = built(tmp_path, "a", "b")
    at.own.mkdir()
    known = installation.TaskList(names=("a", "b"), own=("b",), own_sha256=installation.own_sha256(at.own))
    at.task_file.write_bytes(msgspec.json.encode(known))
    before = {fact.benchmark: fact.rows_sha256 for fact in facts.kind_facts(asked("a", "b"), here)}
    (at.own / "b.yaml").write_text("task: b")
    assert facts.kind_facts(asked("a"), here)[0].rows_sha256 == before["mine:a"], "though they were not read in"
    with pytest.raises(SelectionError, match="have changed"):
        facts.kind_facts(asked("a", "b"), here)


def test_a_run_does_not_see_the_daemons_folders(tmp_path: Path) -> None:
    here, _ = harness(tmp_path)
    assert {str(here.home), str(here.folder), str(here.socket.parent), str(Path.home())} == set(
        facts.hidden_paths(here)
    )
