"""Notices from a real daemon to receivers that take them, refuse them, hang, redirect, flood, or are not there."""

import contextlib
import hashlib
import hmac
import http.server
import json
import os
import signal
import sqlite3
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S

SECRET = "a-secret-of-the-test-0123456789"


@dataclass
class Post:
    """One request as the receiver saw it."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def notice(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


@dataclass
class Receiver:
    """A webhook on loopback; `behave` answers on the connection as it likes."""

    behave: Callable[[http.server.BaseHTTPRequestHandler], None] = lambda handler: status(handler, 204)
    posts: list[Post] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def events(self) -> list[str]:
        return [post.notice["event"] for post in self.posts]


def status(handler: http.server.BaseHTTPRequestHandler, code: int, **headers: str) -> None:
    handler.send_response(code)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("content-length", "0")
    handler.end_headers()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            found.posts.append(Post(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            found.behave(self)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}/hook"
    yield found
    found.gate.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def telling(new_node: Any, tmp_path: Path) -> Callable[..., Any]:
    """Makes a node with tables [[notify]], not started yet."""

    def make(*tables: str, **settings: str) -> Any:
        node = new_node(**settings)
        node.settings["XDG_CONFIG_HOME"] = str(tmp_path / "config")
        folder = tmp_path / "config" / "rwkvctl"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text("".join(f"[[notify]]\n{table}\n" for table in tables))
        return node

    return make


def outbox(node: Any) -> list[dict[str, Any]]:
    """The rows of the outbox, read from the store's file."""
    with sqlite3.connect(f"file:{node.home / 'store.sqlite'}?mode=ro", uri=True) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute("SELECT * FROM notification ORDER BY id")]


def test_a_queue_that_has_run_empty_is_told_once_and_signed(
    telling: Any, receiver: Receiver, tools: Any, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    node = telling(f'name = "ops"\nurl = "{receiver.url}"\nsecret_file = "{secret}"').start()
    (job,) = node.dispatch(limit=2)
    node.wait_for_state(job, "done")
    tools.wait_for(lambda: "queue-empty" in receiver.events(), "it is told", node.log)
    (post,) = receiver.posts
    stamp = post.headers["rwkvctl-timestamp"]
    wanted = hmac.new(SECRET.encode(), stamp.encode() + b"." + post.body, hashlib.sha256).hexdigest()
    assert post.headers["rwkvctl-signature"] == f"sha256={wanted}"
    assert (post.headers["rwkvctl-event"], post.headers["rwkvctl-delivery"]) == ("queue-empty", post.notice["id"])
    assert post.notice["text"].startswith("nothing runs or waits")
    tools.wait_for(lambda: [row["state"] for row in outbox(node)] == ["sent"], "that is stored")
    (view,) = node.api.get("/v1/notify").value["items"]
    assert (view["sent"], view["signed"], view["to"]) == (1, True, "127.0.0.1")
    for path in (node.home / "store.sqlite", node.home / "store.sqlite-wal", node.home.parent / "daemon.log"):
        assert SECRET.encode() not in path.read_bytes()


def test_a_notice_survives_the_death_of_the_daemon_and_is_sent_again_with_its_id(
    telling: Any, receiver: Receiver, tools: Any
) -> None:
    def hold(handler: http.server.BaseHTTPRequestHandler) -> None:
        receiver.gate.wait(LIMIT_S)
        status(handler, 200)

    receiver.behave = hold
    node = telling(f'name = "ops"\nurl = "{receiver.url}"\nevents = ["queue-empty"]').start()
    (job,) = node.dispatch(limit=1)
    node.wait_for_state(job, "done")
    tools.wait_for(lambda: receiver.posts, "it is being told", node.log)
    node.kill()
    receiver.gate.set()
    node.start()
    tools.wait_for(lambda: len(receiver.posts) >= 2, "it is told again", node.log)
    assert len({post.notice["id"] for post in receiver.posts}) == 1
    tools.wait_for(lambda: outbox(node)[0]["state"] == "sent", "it has arrived")
    node.terminate()
    node.start()
    assert [row["event"] for row in outbox(node)] == ["queue-empty"]


def test_hostile_receivers_hurt_nobody(telling: Any, receiver: Receiver, tools: Any) -> None:
    def endless(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):  # the daemon hangs up
            while not receiver.gate.is_set():
                handler.wfile.write(b"x" * 65536)

    def silent(handler: http.server.BaseHTTPRequestHandler) -> None:
        receiver.gate.wait(LIMIT_S)

    manners: dict[str, Callable[[Any], None]] = {
        "endless": endless,
        "silent": silent,
        "moved": lambda handler: status(handler, 302, location="http://127.0.0.1:1/"),
        "gone": lambda handler: status(handler, 410),
        "busy": lambda handler: status(handler, 503),
        "head": lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"a: " + b"x" * 300_000),
        "binary": lambda handler: handler.wfile.write(os.urandom(4096)),
    }
    receiver.behave = lambda handler: manners[handler.path.strip("/")](handler)
    base = receiver.url.removesuffix("/hook")
    limits = dict.fromkeys(manners, 60) | {"silent": 1}
    tables = [f'name = "{name}"\nurl = "{base}/{name}"\ntimeout_s = {limit}' for name, limit in limits.items()]
    node = telling(*tables, 'name = "nobody"\nurl = "http://127.0.0.1:1/"').start()
    reply = node.api.post("/v1/notify/test", {}, LIMIT_S).value
    errors = {item["name"]: item.get("error", "") for item in reply["items"]}
    assert errors["endless"] == ""
    assert "no answer within 1 s" in errors["silent"]
    assert "redirects" in errors["moved"]
    assert errors["gone"] == "HTTP 410"
    assert errors["busy"] == "HTTP 503"
    assert all(errors[name] for name in ("head", "binary", "nobody"))
    assert len([post for post in receiver.posts if post.path == "/moved"]) == 1
    (job,) = node.dispatch(limit=1)
    assert node.wait_for_state(job, "done")
    tools.wait_for(lambda: len(outbox(node)) == len(tables) + 1, "all are to be told", node.log)
    by_target = lambda: {row["target"]: row["state"] for row in outbox(node)}  # noqa: E731
    wanted = {"endless": "sent", "moved": "given-up", "gone": "given-up"}
    tools.wait_for(lambda: wanted.items() <= by_target().items(), "each came to its end", node.log)
    assert by_target()["busy"] == "waiting"
    assert node.answers()


def test_a_command_gets_json_and_is_killed_with_its_group_when_it_hangs(
    telling: Any, tools: Any, tmp_path: Path
) -> None:
    good, marks = tmp_path / "good.json", tmp_path / "marks"
    marks.mkdir()
    hangs = f"sleep 1000 & echo $! > {marks}/child; echo $$ > {marks}/shell; wait"
    node = telling(
        f'name = "good"\ncommand = ["sh", "-c", "cat > {good}.new; echo $0 $RWKVCTL_HOME > {marks}/argument; '
        f'mv {good}.new {good}", "{{event}}: {{text}}"]',
        f'name = "hangs"\ntimeout_s = 4\ncommand = ["sh", "-c", "{hangs}"]',
        'name = "fails"\ncommand = ["sh", "-c", "echo no way >&2; exit 7"]',
        'name = "absent"\ncommand = ["/nowhere/program"]',
        'name = "forks"\ncommand = ["sh", "-c", "sleep 3 & exit 0"]',
    ).start()
    done = node.cli("notify", "test", "--json", check=False)
    errors = {item["name"]: item.get("error", "") for item in json.loads(done.stdout)["items"]}
    assert done.returncode == 1
    assert (errors["good"], errors["forks"]) == ("", "")
    assert "took longer than 4 s" in errors["hangs"]
    assert "exit code 7: no way" in errors["fails"]
    assert "cannot be started" in errors["absent"]
    assert json.loads(good.read_text())["event"] == "test"
    assert (marks / "argument").read_text().startswith("test: this is a test")
    assert str(node.home) not in (marks / "argument").read_text()
    for name in ("child", "shell"):
        stat = Path(f"/proc/{(marks / name).read_text().strip()}/stat")
        tools.wait_for(lambda s=stat: not s.exists() or s.read_text().rpartition(")")[2].split()[0] == "Z", name)

    unknown = node.cli("notify", "test", "opps", check=False)
    assert unknown.returncode == 4
    assert all(name in unknown.stderr.partition("there are: ")[2] for name in errors)


def test_who_is_new_hears_only_of_what_follows(telling: Any, receiver: Receiver, tools: Any, tmp_path: Path) -> None:
    node = telling().start()
    (job,) = node.dispatch(limit=1)
    node.wait_for_state(job, "done")
    assert node.api.get("/v1/notify").value["items"] == []
    file = tmp_path / "config" / "rwkvctl" / "config.toml"
    file.write_text(f'[[notify]]\nname = "ops"\nurl = "{receiver.url}"\n')
    node.api.post("/v1/reload", {})
    node.dispatch(limit=2)
    tools.wait_for(lambda: receiver.posts, "the later work is told of", node.log)
    assert receiver.events() == ["queue-empty"]
    file.write_text("")
    node.api.post("/v1/reload", {})
    assert node.api.get("/v1/notify").value["items"] == []


def test_a_failed_job_is_told_of(telling: Any, receiver: Receiver, tools: Any) -> None:
    node = telling(f'url = "{receiver.url}"\nevents = ["job-failed"]', max_restarts="0").start()
    node.engines_do(answers=1)
    (job,) = node.dispatch(limit=3)
    node.wait_until_some(job, 1)
    assert tools.kill_worker(node.runner_record(job), signal.SIGSEGV)
    node.wait_for_state(job, "failed")
    tools.wait_for(lambda: receiver.posts, "it is told", node.log)
    (post,) = receiver.posts
    assert (post.notice["event"], post.notice["data"]["id"]) == ("job-failed", job)
    assert post.notice["text"].startswith(f"{job} failed")
    assert "rwkvctl-signature" not in post.headers


def test_a_checkpoint_that_got_worse_under_its_name_is_told_of(telling: Any, receiver: Receiver, tools: Any) -> None:
    node = telling(f'url = "{receiver.url}"\nevents = ["regression"]')
    mine = node.add_model("mine")
    node.start()
    (first,) = node.dispatch(models=["mine"], limit=40)
    node.wait_for_state(first, "done")
    with zipfile.ZipFile(mine, "a") as archive:
        archive.comment = b"trained for too long"
    node.engines_do(texts={"=": "no sum"})
    (second,) = node.dispatch(models=["mine"], limit=40)
    node.wait_for_state(second, "done")
    tools.wait_for(lambda: receiver.posts, "it is told", node.log)
    (post,) = receiver.posts
    assert post.notice["event"] == "regression"
    assert (post.notice["data"]["job"], post.notice["data"]["baseline"]) == (second, first)
    assert post.notice["data"]["a"] > post.notice["data"]["b"]
    assert f"against {first}" in post.notice["text"]
