"""What an operator types to stop, pause, hold and drain, and to read logs; on a daemon that plays."""

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkvctl.cli import main
from rwkvctl.cli.commands import drain, stop
from rwkvctl.http import server
from rwkvctl.protocol.events import LogChunk
from rwkvctl.protocol.replies import ChangedReply, JobReply, Reply
from rwkvctl.protocol.views import ChangedJob

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_daemon: Any) -> Iterator[Any]:
    """A daemon that plays, and nothing else of ours in the environment."""
    monkeypatch.setenv("RWKVCTL_SOCKET", str(tmp_path / "d.sock"))
    monkeypatch.setenv("RWKVCTL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(stop, "LOOK_S", 0.01)
    monkeypatch.setattr(drain, "LOOK_S", 0.01)
    with fake_daemon.serving(tmp_path / "d.sock", fake_daemon.Node()) as playing:
        yield playing


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], node: Any) -> Run:
    """Run one command line in this process."""

    def call(*words: str) -> tuple[int, str, str]:
        code = main.main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return call


def answer(node: Any, route: str, reply: Reply) -> None:
    node.answers[route] = lambda _: server.Response(body=msgspec.json.encode(reply))


@pytest.mark.parametrize("flags", [["--all"], ["--model", "a"], ["--session-id", "s"]])
def test_many_jobs_are_not_stopped_where_nobody_can_be_asked(run: Run, node: Any, flags: list[str]) -> None:
    code, _, err = run("stop", *flags)
    assert code == 5
    assert "use --yes" in err
    assert not node.asked


class Keyboard(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 5), ("\n", 5), ("", 5)])
def test_on_a_terminal_the_operator_is_asked(monkeypatch: pytest.MonkeyPatch, node: Any, typed: str, code: int) -> None:
    screen = Keyboard()
    monkeypatch.setattr("sys.stdin", Keyboard(typed))
    monkeypatch.setattr("sys.stderr", screen)
    assert main.main(["stop", "--all"]) == code
    assert "Stop every job that is not finished on " in screen.getvalue()
    assert bool(node.asked) is (code == 0)


def test_stop_waits_until_nothing_runs_and_says_each_step(run: Run, node: Any, fake_daemon: Any) -> None:
    still = "its runner (pid 5) is asked to stop; the next step follows after 30 s"
    answer(
        node,
        "/v1/stop",
        ChangedReply(items=(ChangedJob(job="j1", state="stopping", changed=True, still=still),)),
    )
    steps = iter(
        [
            fake_daemon.job(1, "stopping", detail=still),
            fake_daemon.job(1, "stopping", detail="SIGTERM"),
            fake_daemon.job(1, "stopped"),
        ]
    )
    node.answers["/v1/jobs/j1"] = lambda _: server.Response(body=msgspec.json.encode(JobReply(item=next(steps))))
    code, out, err = run("stop", "j1")
    assert code == 0
    assert "stopped" in out
    assert [still in err, "SIGTERM" in err] == [True, True]


def test_what_cannot_be_ended_is_exit_6_and_not_called_stopped(run: Run, node: Any, fake_daemon: Any) -> None:
    stuck = "its runner (pid 5) cannot be ended, not even by SIGKILL"
    item = ChangedJob(job="j1", state="stopping", changed=True, still=stuck)
    answer(node, "/v1/stop", ChangedReply(items=(item,)))
    answer(node, "/v1/jobs/j1", JobReply(item=fake_daemon.job(1, "stopping", detail=stuck)))
    code, out, err = run("stop", "j1", "--timeout", "0.1")
    assert code == 6
    assert "stopping" in out
    assert stuck in out + err


def test_ids_come_from_a_pipe_as_jobs_lists_them(run: Run, node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = "job\tstate\tmodel\nj3\tfailed\ta\nj12\tfailed\tb\n\n17\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(table))
    code, _, _ = run("retry", "-")
    assert code == 0
    (asked,) = [body for _, path, _, body in node.asked if path == "/v1/resume"]
    assert (asked["jobs"], asked["failed"]) == (["j3", "j12", "17"], True)
    monkeypatch.setattr("sys.stdin", io.StringIO("job\tstate\n"))
    code, _, err = run("retry", "-")
    assert code == 2
    assert "no job on standard input" in err


def test_a_pause_shows_who_and_why(run: Run, node: Any) -> None:
    code, out, _ = run("pause", "--queue", "--reason", "training")
    assert code == 0
    assert re.search(r"queue\t\t2026-.*\talice\ttraining", out)
    code, out, err = run("resume", "--queue")
    assert code == 0
    assert "no pauses of a model, a group, the queue or the judge" in err


@pytest.mark.parametrize(
    "words",
    [
        ["pause"],
        ["pause", "j1", "--queue"],
        ["pause", "--model", "a", "--group", "b"],
        ["resume", "j1", "--queue"],
        ["retry"],
        ["stop"],
        ["stop", "j1", "--all"],
        ["drain", "--off", "--wait"],
        ["logs", "j1", "--grep", "("],
    ],
)
def test_what_is_not_clear_is_usage(run: Run, node: Any, words: list[str]) -> None:
    code, _, err = run(*words)
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert not node.asked


def test_drain_waits_until_the_node_is_idle(run: Run, node: Any) -> None:
    def status(_: Any) -> server.Response:
        if len([path for _, path, _, _ in node.asked if path == "/v1/status"]) > 2:
            node.jobs = [job for job in node.jobs if job.state != "generating"]
        return server.Response(body=msgspec.json.encode(node.on_status()))

    node.answers["/v1/status"] = status
    code, _, err = run("drain", "--reason", "new driver", "--wait")
    assert code == 0
    assert err.splitlines()[0].startswith("still running: j1")
    assert err.splitlines()[-1] == "the node is idle: nothing runs, nothing starts"
    node.answers.clear()


def chunk(text: str, at: str = "", source: str = "j1") -> bytes:
    return msgspec.json.encode(LogChunk(source=source, text=text, attempt=1, offset=5, at=at)) + b"\n"


def test_a_log_is_searched_line_by_line_however_it_comes_in_pieces(run: Run, node: Any) -> None:
    pieces = [
        chunk("one err", "2026-11-01T02:58:00Z"),
        chunk("or\ntwo\nthr", "2026-11-01T02:58:01Z"),
        chunk("ee error", "2026-11-01T02:58:02Z"),
        chunk("2026-11-01 j1: stopping\n", "2026-11-01T02:58:03Z", "daemon"),
    ]
    node.answers["/v1/logs/j1"] = lambda _: server.Response(body=b"".join(pieces), content_type=server.NDJSON)
    code, out, _ = run("logs", "j1", "--grep", "error", "--timestamps")
    assert code == 0
    assert out == "2026-11-01 02:58:00 one error\n2026-11-01 02:58:01 three error\n"
    code, out, _ = run("logs", "j1")
    assert out == "one error\ntwo\nthree error2026-11-01 j1: stopping\n"


def test_since_is_a_moment_for_the_daemon(run: Run, node: Any) -> None:
    run("logs", "j1", "--since", "5m", "-n", "7")
    query = next(query for _, path, query, _ in node.asked if path == "/v1/logs/j1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", query["since"])
    assert query["tail"] == "7"
    code, _, err = run("logs", "j1", "--since", "yesterday-ish")
    assert code == 2
    assert "is not a time" in err


def test_json_lines_of_a_log_are_those_that_match(run: Run, node: Any) -> None:
    pieces = [chunk("good\n"), chunk("bad\n"), chunk("")]
    node.answers["/v1/logs/j1"] = lambda _: server.Response(body=b"".join(pieces), content_type=server.NDJSON)
    _, out, _ = run("logs", "j1", "--grep", "bad", "--json")
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["bad\n"]
