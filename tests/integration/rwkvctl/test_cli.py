"""The command line against a daemon that plays: requests as the messages have them, output, exit codes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import LIMIT_S, wait_for

from rwkvctl.cli import client, doctor, main
from rwkvctl.http import server
from rwkvctl.protocol.replies import ChangedReply, DispatchReply
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.routes import ROUTES, reply_decoder
from rwkvctl.protocol.views import ChangedJob, StageView

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def socket_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the daemon listens; the environment holds nothing else of ours."""
    for name in [name for name in os.environ if name.startswith("RWKVCTL_") or name in {"FORCE_COLOR", "COLUMNS"}]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RWKVCTL_SOCKET", str(tmp_path / "d.sock"))
    monkeypatch.setenv("RWKVCTL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(client, "PAUSE_S", 0.01)
    return tmp_path / "d.sock"


@pytest.fixture
def node(socket_path: Path, fake_daemon: Any) -> Iterator[Any]:
    """A fake daemon that serves on `socket_path`."""
    with fake_daemon.serving(socket_path, fake_daemon.Node()) as playing:
        yield playing


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run one command line in this process."""

    def call(*words: str) -> tuple[int, str, str]:
        code = main.main(list(words))
        out, err = capsys.readouterr()
        return int(code), out, err

    return call


EVERY = [
    "status",
    "status --session-id s1",
    "queue --models builtin --limit 5",
    "dispatch --seed 3 --priority 2 --overwrite --plan 77c1 --set a=b --numerics fp32 --domains x",
    "dispatch --run-log-dir /l --skip-missing-dataset --job-order cot --model-select latest-data",
    "stop j1",
    "stop --all --yes",
    "stop --model a --yes",
    "stop --session-id s1 --yes",
    "retry j1",
    "retry --all",
    "retry --session-id s1",
    "pause j1 j2 --reason why",
    "pause --model a",
    "pause --group g",
    "pause --queue",
    "resume --model a",
    "resume --group g",
    "resume --queue",
    "resume --all",
    "hold j1 --reason why",
    "release j1",
    "priority j1 5",
    "drain --reason why",
    "drain --off",
    "resume j1",
    "resume --session-id s1",
    "scores --model a --benchmark b --all-versions",
    "samples j1 --wrong --limit 3 --after 7",
    "samples j1 --latest",
    "jobs --state done --before 9 --session-id s",
    "models",
    "benchmarks",
    "logs j1",
    "logs -f daemon",
    "logs j1 --tail 5 --since 5m --grep line --timestamps",
    "logs",
    "version",
    "dispatch --wait --timeout 0.3",
    "reload",
    "notify",
    "notify test ops",
    "metrics --json",
    "job-log --session-id s --model m --limit 5 --since 7d",
    "job-log --format csv --all",
    "job-log --suite nightly",
    "suites",
    "queue --suite nightly --limit 5",
    "dispatch --suite nightly --note why --yes",
    "show j1",
]


@pytest.mark.parametrize("line", EVERY)
def test_requests_are_those_of_the_messages(run: Run, node: Any, line: str) -> None:
    node.answers["/v1/logs/daemon"] = lambda _: server.Response(body=b"", content_type=server.NDJSON)
    run(*line.split())
    assert node.asked
    for method, path, query, body in node.asked:
        struct = route_of(method, path)
        fields = set(struct.__struct_fields__)
        given = query if method == "GET" else body
        assert set(given) <= fields, (path, given)
        missing = {field.name: "x" for field in msgspec.structs.fields(struct) if field.required}
        msgspec.convert(missing | given, struct, strict=False)
        if "selection" in given:
            assert set(given["selection"]) <= set(Selection.__struct_fields__)


def route_of(method: str, path: str) -> type[msgspec.Struct]:
    """The request that a method and path stand for."""
    for struct, (wanted, route) in ROUTES.items():
        if method == wanted and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route), path):
            return struct
    raise AssertionError(f"no request is {method} {path}")


@pytest.mark.parametrize(
    "line", ["status", "queue", "scores", "jobs", "models", "benchmarks", "suites", "samples j1", "stop j2"]
)
def test_json_is_the_reply_itself(run: Run, node: Any, line: str) -> None:
    code, out, _ = run(*line.split(), "--json")
    assert code == 0
    assert "rwkvctl." in reply_decoder.decode(out.encode()).__struct_config__.tag
    assert len(out.splitlines()) == 1


@pytest.mark.parametrize(
    "line", ["version", "config show", "doctor", "help", "completion bash", "man status", "service status"]
)
def test_json_of_local_verbs_has_the_same_envelope(run: Run, node: Any, line: str) -> None:
    _, out, _ = run(*line.split(), "--json")
    assert {"schema", "as_of", "node"} <= set(json.loads(out))


def test_pipe_is_tab_separated_and_plain(run: Run, node: Any) -> None:
    code, out, _ = run("scores")
    assert code == 0
    header, line = out.splitlines()
    assert header.split("\t")[:6] == ["model", "benchmark", "kind", "metric", "value", "ci half"]
    assert line.split("\t")[:6] == ["rwkv7-g1-2.9b", "gsm8k", "cot", "accuracy", "0.749", "0.023"]


def test_table_fits_80_columns(run: Run, node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for line in ("status", "queue", "scores", "jobs", "samples j1"):
        _, out, _ = run(*line.split(), "-o", "table")
        assert all(len(text) <= 80 for text in out.splitlines()), line


def test_queue_shows_one_reason_a_row_and_the_hash(run: Run, node: Any) -> None:
    _, out, _ = run("queue", "-o", "table")
    assert "77c1aa03" in out
    assert "rwkvctl data prepare" in out
    assert node.asked[0][:2] == ("POST", "/v1/plan")


def test_second_dispatch_queues_nothing(run: Run, node: Any) -> None:
    node.plan_rows = [
        msgspec.structs.replace(node.plan_rows[1], reason=reason, job="j9") for reason in ("done", "queued")
    ]
    node.jobs = []
    code, out, _ = run("dispatch", "-o", "table")
    assert code == 0
    assert out.startswith("0 new, 2 already queued/done")


def queued_by(node: Any) -> bool:
    return any(path == "/v1/dispatch" for _, path, *_ in node.asked)


@pytest.mark.parametrize(("reason", "number"), [("run", 51), ("data-missing", 2)])
def test_much_or_only_held_work_is_asked_about_before_it_is_queued(
    run: Run, node: Any, reason: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    action = "run" if reason == "run" else "hold"
    row = msgspec.structs.replace(node.plan_rows[0], action=action, reason=reason)
    node.plan_rows = [msgspec.structs.replace(row, benchmark=f"b{n}") for n in range(number)]
    code, out, err = run("dispatch")
    assert (code, out) == (5, "")
    assert f"Queue {number} jobs" in err
    assert "use --yes. Nothing was changed." in err
    assert json.loads(run("dispatch", "--json")[1])["code"] == "needs-yes"
    assert not queued_by(node)
    assert run("dispatch", "--yes")[0] == 0
    assert queued_by(node)
    node.asked.clear()
    monkeypatch.setenv("RWKVCTL_DISPATCH_ASKS_ABOVE", "0")
    assert run("dispatch")[0] == (0 if reason == "run" else 5)
    assert run("dispatch", "--plan", "77c1aa03")[0] == 0, "its plan was seen"


def test_what_has_no_rows_is_named_and_nothing_at_all_is_refused(run: Run, node: Any) -> None:
    node.plan_rows[2] = msgspec.structs.replace(node.plan_rows[2], action="skip")
    code, _, err = run("dispatch")
    assert code == 0
    assert "left out because their rows are not prepared: ifeval" in err
    node.asked.clear()
    node.plan_rows = node.plan_rows[2:]
    code, out, err = run("dispatch", "--json")
    assert (code, json.loads(out)["code"]) == (5, "data-missing")
    assert "`rwkvctl data prepare ifeval` prepares them" in err
    node.plan_rows = []
    code, _, err = run("dispatch")
    assert code == 5
    assert "no model or no benchmark matches the filters. Models on this node: builtin" in err
    assert not queued_by(node)


def test_stop_twice_changes_nothing_the_second_time(run: Run, node: Any) -> None:
    assert "yes" in run("stop", "j1")[1]
    code, out, _ = run("stop", "j1", "--json")
    assert code == 0
    assert json.loads(out)["items"][0]["changed"] is False


@pytest.mark.parametrize(
    ("line", "code"), [("stop j1 j99", 8), ("stop j99", 4), ("samples j99", 4), ("stop", 2), ("resume", 2)]
)
def test_exit_codes(run: Run, node: Any, line: str, code: int) -> None:
    found, _, err = run(*line.split())
    assert found == code
    assert "Traceback" not in err


def test_the_files_that_were_looked_at_are_named(run: Run, socket_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = socket_path.parent / "home"
    home.mkdir()
    (home / "config.toml").write_text("engine_slots = 9\n", encoding="utf-8")
    code, out, err = run("config", "show")
    assert code == 0
    assert f"engine_slots\t9\t{home / 'config.toml'}\t" in out
    assert err.startswith("files read: /")
    assert err.endswith(f", {home / 'config.toml'}\n")
    assert json.loads(run("config", "show", "--json")[1])["files"][-1] == str(home / "config.toml")
    assert doctor.configuration().what == err.removeprefix("files read: ").strip()
    monkeypatch.chdir(home)
    assert list(doctor.rwkv_skills()) == []
    monkeypatch.setenv("PG_HOST", "db")
    (found,) = doctor.rwkv_skills()
    assert found.what == "PG_HOST set up rwkv-skills; rwkvctl does not read them"
    assert found.verdict == "optional"


def test_no_daemon_is_exit_3_and_one_sentence(run: Run, socket_path: Path) -> None:
    for line in ("status", "queue", "dispatch", "scores", "jobs", "models", "stop j1", "logs j1"):
        code, out, err = run(*line.split())
        assert (code, out) == (3, "")
        assert len(err.splitlines()) == 1
        assert "rwkvctl daemon" in err
    code, out, _ = run("status", "--json")
    assert json.loads(out)["code"] == "unreachable"
    assert json.loads(out)["exit_code"] == 3


def test_other_protocol_is_exit_7(run: Run, node: Any) -> None:
    node.protocol = "2"
    code, _, err = run("status")
    assert code == 7
    assert "protocol 2" in err


@pytest.mark.parametrize("words", [["statsu"], ["status", "--jsno"], ["data"], ["data", "prepra"], []])
def test_usage_is_exit_2(run: Run, words: list[str]) -> None:
    code, _, err = run(*words)
    assert code == 2
    assert "Traceback" not in err


def test_model_text_is_escaped_for_people_and_raw_in_json(run: Run, node: Any, fake_daemon: Any) -> None:
    evil = fake_daemon.EVIL
    node.samples = [
        fake_daemon.sample(
            1, extracted=evil, stages=(StageView(stage="a", prompt=evil, completion=evil, stop="length"),)
        )
    ]
    node.log = evil + "\n"
    node.jobs = [fake_daemon.job(1, model=evil, detail=evil)]
    for line in ("samples j1", "samples j1 -o table", "logs j1", "status -o table", "jobs", "logs"):
        _, out, _ = run(*line.split())
        assert "\u241b]52;c;" in out, line
        assert not [char for char in out if char not in "\n\t" and (ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0)], line
    _, out, _ = run("samples", "j1", "--json")
    assert json.loads(out)["items"][0]["extracted"] == evil


def test_wait_follows_to_the_scores(run: Run, node: Any, fake_daemon: Any) -> None:
    node.plan_rows = node.plan_rows[:1]
    finishing = threading.Thread(target=finish, args=(node, fake_daemon))
    finishing.start()
    code, out, err = run("dispatch", "--wait", "--timeout", "120")
    finishing.join()
    assert code == 0, err
    assert out.splitlines()[0].startswith("model\tbenchmark")
    assert out.count("0.749") == 2
    assert "j1 rwkv7-g1-2.9b gsm8k cot" in err


def follows(node: Any) -> bool:
    return any(path == "/v1/events" for _, path, *_ in node.asked)


def finish(node: Any, fake_daemon: Any) -> None:
    """Let both jobs make progress and end, once somebody follows."""
    wait_for(lambda: follows(node), "the events are followed")
    for done in (60, 80):
        node.change(1, done=done)
    for number in (1, 2):
        node.change(number, state="done", done=100, score=fake_daemon.score(number))


def test_wait_with_everything_done_shows_stored_scores(run: Run, node: Any, fake_daemon: Any) -> None:
    node.jobs = [fake_daemon.job(9, "done", score=fake_daemon.score(9))]
    node.plan_rows = [node.plan_rows[1]]
    code, out, err = run("dispatch", "--wait", "--timeout", "120")
    assert code == 0
    assert "0 new, 1 already queued/done" in err
    assert "0.749" in out


def test_wait_says_which_job_failed(run: Run, node: Any, fake_daemon: Any) -> None:
    node.plan_rows = node.plan_rows[:1]
    node.jobs = [
        fake_daemon.job(1, "failed", detail="out of memory"),
        fake_daemon.job(2, "done", score=fake_daemon.score(2)),
    ]
    node.on_dispatch = lambda *_: DispatchReply(session="s1", jobs=("j1", "j2"), plan=node.on_plan())
    code, out, err = run("dispatch", "--wait", "--timeout", "120")
    assert code == 1
    assert "j1 rwkv7-g1-2.9b gsm8k cot: failed. out of memory" in err
    assert "0.749" in out


def test_wait_outlives_the_daemon(
    run: Run, socket_path: Path, fake_daemon: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rwkvctl.cli import waiting

    monkeypatch.setattr(waiting, "PAUSE_S", 0.05)
    node = fake_daemon.Node()
    node.plan_rows = node.plan_rows[:1]

    def restart() -> None:
        with fake_daemon.serving(socket_path, node):
            started.set()
            wait_for(lambda: follows(node), "the events are followed")
        node.jobs = [fake_daemon.job(n, "done", score=fake_daemon.score(n)) for n in (1, 2)]
        with fake_daemon.serving(socket_path, node):
            ended.wait(LIMIT_S)

    started, ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=restart)
    thread.start()
    started.wait(LIMIT_S)
    code, out, err = run("dispatch", "--wait", "--timeout", "120")
    ended.set()
    thread.join()
    assert code == 0, err
    assert "lost the connection to the daemon" in err
    assert out.count("0.749") == 2


def test_wait_times_out_and_says_that_work_goes_on(run: Run, node: Any) -> None:
    code, out, err = run("dispatch", "--wait", "--timeout", "0.3")
    assert code == 6
    assert out == ""
    assert "the jobs continue" in err


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "rwkvctl.cli", *words]


def test_ctrl_c_is_130_and_says_how_to_stop(node: Any) -> None:
    with subprocess.Popen(command("dispatch", "--wait"), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(LIMIT_S) == 130
    assert "rwkvctl stop j1 j2" in rest
    assert "Traceback" not in rest


def test_closed_pipe_is_quiet(node: Any) -> None:
    node.samples = node.samples * 3000
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command("samples", "j1"), env=environ, **pipes) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(LIMIT_S) == 141


def test_mutation_that_is_cut_is_repeated_under_one_id(run: Run, node: Any) -> None:
    calls: list[dict[str, Any]] = []

    def cut_once(request: server.Request) -> server.Response:
        calls.append(json.loads(request.body))
        if len(calls) == 1:
            raise ConnectionResetError
        return server.Response(
            body=msgspec.json.encode(ChangedReply(items=(ChangedJob(job="j1", state="stopped", changed=True),)))
        )

    node.answers["/v1/stop"] = cut_once
    assert run("stop", "j1")[0] == 0
    assert len(calls) == 2
    assert len({call["request_id"] for call in calls}) == 1


def test_become_replaces_the_process(tmp_path: Path) -> None:
    code = "from rwkvctl.cli.exec_module import become; become('platform', '--terse')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "Linux" in done.stdout


@pytest.mark.parametrize(
    "words", ["weights list", "data list", "doctor", "benchmarks show demo_arith", "engine serve --help"]
)
def test_nothing_is_imported_from_the_folder_in_which_the_operator_stands(
    words: str, socket_path: Path, tmp_path: Path
) -> None:
    """It may be another user's."""
    trap = f"open({str(tmp_path / 'sprung')!r}, 'a').write(__file__)"
    for name in ("rwkvctl", "rwkv_data", "rwkv_daemon", "rwkv_weights", "msgspec"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(trap)
    for name in ("asyncio", "json", "dataclasses", "typing"):
        (tmp_path / f"{name}.py").write_text(trap)
    program = [sys.executable, "-P", "-m", "rwkvctl.cli", *words.split()]  # as the installed script does
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout or done.stderr
    assert not (tmp_path / "sprung").exists(), (tmp_path / "sprung").read_text()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["daemon"], ["rwkv_daemon"]),
        (["daemon", "--home", "/h", "--socket", "/s"], ["rwkv_daemon", "--home", "/h", "--socket", "/s"]),
        (["engine", "serve", "m.pth", "--socket", "/s"], ["rwkv_engine", "serve", "m.pth", "--socket", "/s"]),
        (["engine", "serve", "--help"], ["rwkv_engine", "serve", "--help"]),
        (
            ["data", "prepare", "gsm8k", "--from", "/f", "--home", "/h"],
            ["rwkv_data", "prepare", "gsm8k", "--from", "/f", "--home", "/h"],
        ),
        (["data", "list", "--home", "/h", "--json"], ["rwkv_data", "list", "--home", "/h", "--json"]),
        (
            ["benchmarks", "show", "gsm8k", "--home", "/h"],
            ["rwkv_data", "show", "gsm8k", "--count", "3", "--home", "/h"],
        ),
    ],
)
def test_verbs_that_are_other_programs(monkeypatch: pytest.MonkeyPatch, words: list[str], expected: list[str]) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, argv: became.append([*argv[3:]]))
    main.main(words)
    assert became == [expected]


def test_cold_start_imports_nothing_heavy(node: Any) -> None:
    code = (
        "import sys; from rwkvctl.cli.main import main; main(['status']); main(['status', '-o', 'json']);"
        "main(['scores']); main(['gpus']);"
        "print(sorted({'msgspec', 'httpx', 'asyncio', 'rich', 'textual', 'h11', 'tomllib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_stale_socket_file_is_no_daemon(run: Run, socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(socket_path))
    assert run("status")[0] == 3
