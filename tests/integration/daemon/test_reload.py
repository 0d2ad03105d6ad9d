"""The configuration read anew while everything runs: by request and by signal; good ones, and bad ones."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from locked_store import locked_store

from rwkvctl.protocol.errors import NotNowError, RefusedError
from rwkvctl.settings.fields import Settings


@pytest.fixture
def configured(new_node: Any, tmp_path: Path) -> Any:
    """A node with a configuration of its own, not started yet."""
    node = new_node()
    node.settings["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    (tmp_path / "config" / "rwkvctl").mkdir(parents=True)
    return node


def folder(node: Any) -> Path:
    return Path(node.settings["XDG_CONFIG_HOME"]) / "rwkvctl"


def write(node: Any, text: str) -> None:
    (folder(node) / "config.toml").write_text(text)


def notes(node: Any) -> str:
    return " ".join(node.api.get("/v1/status").value.get("notes", ()))


def test_every_setting_is_told_with_the_line_the_variable_or_the_flag_that_set_it(configured: Any) -> None:
    configured.settings["RWKVCTL_ENGINE_SLOTS"] = "8"
    write(configured, 'reap = "auto"\n[judge]\nmodel = "m"\n[[judge.endpoints]]\nbase_url = "http://127.0.0.1:9/v1"\n')
    file = folder(configured) / "config.toml"
    told = configured.start().api.get("/v1/config").value
    items = {item["name"]: item for item in told["items"]}
    assert (items["reap"]["value"], items["reap"]["origin"]) == ("auto", f"{file}:1")
    assert (items["engine_slots"]["value"], items["engine_slots"]["origin"]) == (8, "environment RWKVCTL_ENGINE_SLOTS")
    assert (items["home"]["value"], items["home"]["restart"]) == (str(configured.home), True)
    assert items["stop_grace_s"]["origin"] == "environment RWKVCTL_STOP_GRACE_S"
    assert items["stall_s"]["origin"] == "default"
    assert (items["[judge]"]["value"], items["[judge]"]["origin"]) == ("model, endpoints", f"{file}:2")
    assert str(file) in told["files"]
    shown = configured.cli("config", "show", "--daemon", "-o", "tsv").stdout
    assert f"reap\tauto\t{file}:1\t" in shown
    file.unlink()
    again = {item["name"]: item for item in configured.api.get("/v1/config").value["items"]}
    assert again["reap"]["origin"] == str(file), "a file that has gone has no lines"


def test_what_changed_is_said_and_jobs_notice_nothing(configured: Any) -> None:
    node = configured.start()
    node.engines_do(answers=1)
    (job,) = node.dispatch(limit=5)
    node.wait_until_some(job, 1)
    engine = node.engine_record().pid
    write(
        node, 'idle_unload_s = 5\nsocket = "/run/other.sock"\n[groups]\nnightly = 2\n[roles]\nadmin = ["nobody-here"]\n'
    )
    reply = node.api.post("/v1/reload", {}).value
    assert reply["changed"][0] == "idle_unload_s: 600.0 is 5.0 now"
    assert any(line.startswith("groups:") for line in reply["changed"])
    assert reply["waits"] == ["socket"]
    assert any("nobody-here" in line for line in reply["warnings"])
    assert node.job(job)["state"] == "generating"
    assert node.engine_record().pid == engine
    assert node.api.post("/v1/reload", {}).value.get("changed", []) == []
    assert "nobody-here" in notes(node)
    write(node, "idle_unload_s = 5\n")
    node.api.post("/v1/reload", {})
    assert "nobody-here" not in notes(node)


MISTAKES = (
    ("engine_slots = 2\nmax_restarts = 'x'\n", "config.toml:2: max_restarts must be int"),
    ("engine_slots = 2\nunknown_one = 1\n", "config.toml:2: unknown setting 'unknown_one'"),
    ("engine_slots = 2\n[[notify\n", "config.toml is not valid TOML"),
    ('engine_slots = 2\n\n[[notify]]\nurl = "x"\n', "config.toml:3: [[notify]] 1: its address"),
    ('engine_slots = 2\n[judge]\nmodel = "m"\n', "config.toml:2: [judge]: no endpoint"),
    ('engine_slots = 2\n[roles]\nemperor = ["me"]\n', "config.toml:2: a role is viewer"),
    ("engine_slots = 2\n[groups]\nnightly = 0\n", "config.toml:3: group nightly"),
)


def test_a_mistake_changes_nothing(configured: Any) -> None:
    node = configured.start()
    for text, says in MISTAKES:
        write(node, text)
        with pytest.raises(RefusedError) as caught:
            node.api.post("/v1/reload", {})
        assert (caught.value.code, caught.value.exit_code) == ("bad-configuration", 2)
        assert says in str(caught.value)
        assert says in notes(node)
    write(node, "engine_slots = 3\n")
    assert node.api.post("/v1/reload", {}).value["changed"] == ["engine_slots: 0 is 3 now"]
    assert "refused" not in notes(node)


def test_benchmarks_toml_reaches_the_next_dispatch_and_no_earlier_one(configured: Any) -> None:
    node = configured.start()
    (before,) = node.dispatch(limit=4)
    key = node.wait_for_state(before, "done")["generation_key"]
    (folder(node) / "benchmarks.toml").write_text("[demo_arith]\nk = 2\n")
    assert "rwkvctl reload" in notes(node)
    assert "benchmarks" in node.api.post("/v1/reload", {}).value["changed"][0]
    assert "benchmarks.toml" not in notes(node)
    (after,) = node.dispatch(limit=4)
    found = node.wait_for_state(after, "done")
    assert (found["total"], node.job(before)["generation_key"]) == (8, key)
    (folder(node) / "benchmarks.toml").write_text("[demo_arith]\nnonsense = 2\n")
    with pytest.raises(RefusedError, match=r"benchmarks\.toml:2"):
        node.api.post("/v1/reload", {})


def test_sighup_does_the_same_and_says_what_is_wrong_in_the_status(configured: Any) -> None:
    node = configured.start()
    write(node, "engine_slots = 'x'\n")
    os.kill(node.daemon.pid, signal.SIGHUP)
    node.until(lambda: "config.toml:1" in notes(node), "the mistake is named")
    write(node, 'log_format = "json"\n')
    os.kill(node.daemon.pid, signal.SIGHUP)
    node.until(lambda: "config.toml" not in notes(node), "it is taken in")
    node.dispatch(limit=1)
    node.until(lambda: '"job": "j1"' in node.log(), "the log is JSON now")
    lines = [line for line in node.log().splitlines() if line.startswith("{")]
    assert {"at", "level", "message"} <= json.loads(lines[-1]).keys()


def is_reloaded(node: Any) -> bool:
    (item,) = (item for item in node.api.get("/v1/config").value["items"] if item["name"] == "stall_s")
    return bool(item["value"] == 77)


def test_a_reload_that_cannot_be_stored_changes_nothing_and_is_told_when_it_is_repeated(configured: Any) -> None:
    node = configured.start()
    write(node, "stall_s = 77\n")
    with locked_store(node.home):
        with pytest.raises(NotNowError):
            node.hasty.post("/v1/reload", {})
        assert not is_reloaded(node)
    node.until(lambda: not node.api.get("/v1/status").value["trouble"], "it can be written again")
    assert node.api.post("/v1/reload", {}).value["changed"] == [f"stall_s: {Settings().stall_s} is 77.0 now"]
    assert is_reloaded(node)


def test_a_sighup_while_the_store_is_away_is_not_lost(configured: Any) -> None:
    node = configured.start()
    write(node, "stall_s = 77\n")
    with locked_store(node.home):
        os.kill(node.daemon.pid, signal.SIGHUP)
        node.until(lambda: "not in force yet" in node.log(), "the daemon has tried it")
        assert not is_reloaded(node)
    node.until(lambda: is_reloaded(node), "it is in force")


def test_the_command_line_has_its_exit_code(configured: Any) -> None:
    node = configured.start()
    assert "no changes" in node.cli("reload", "-o", "table").stdout
    write(node, "engine_slots = -1\n")
    done = node.cli("reload", check=False)
    assert done.returncode == 2
    assert "config.toml:1" in done.stderr
