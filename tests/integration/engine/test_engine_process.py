"""An engine's process on its Unix socket, as a supervisor and a runner use it: the real one, and the stub that stands
in for it in other tests. The same requests go to both, so that the stub cannot drift."""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from live_node import STUB
from waiting import LIMIT_S, wait_for

from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.protocol.engine import (
    Continue,
    EngineHealth,
    EngineStats,
    Generated,
    GenerateItem,
    GroupNow,
    Sampling,
    Scored,
    ScoreItem,
    Stops,
)
from rwkvctl.settings import process_locks

ROOT = Path(__file__).resolve().parents[3]


ENGINES = {"rwkv": {}, "stub": {"PYTHONPATH": str(STUB)}}


def start(which: str, *flags: str, model: Path | None = None) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "rwkv_engine", "serve", str(model or builtin_checkpoint_path()), *flags]
    own = {"OMP_NUM_THREADS": "1", **ENGINES[which]}
    return subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env={**os.environ, **own})


def wait_for_socket(path: Path, process: subprocess.Popen[str]) -> None:
    wait_for(lambda: path.exists() or process.poll() is not None, "the engine listens")
    assert process.poll() is None, process.stderr and process.stderr.read()


class Engine:
    """A started engine and a client of it."""

    def __init__(self, which: str, folder: Path, *flags: str) -> None:
        self.socket = folder / "e.sock"
        self.liveness = folder / "live"
        self.process = start(which, "--socket", str(self.socket), "--liveness", str(self.liveness), *flags)
        wait_for_socket(self.socket, self.process)
        transport = httpx.HTTPTransport(uds=str(self.socket))
        self.client = httpx.Client(transport=transport, base_url="http://engine", timeout=LIMIT_S)

    def post(self, path: str, *items: object) -> httpx.Response:
        return self.client.post(path, content=b"\n".join(map(msgspec.json.encode, items)))

    def generate(self, *items: GenerateItem) -> list[Generated]:
        response = self.post("/v1/generate", *items)
        assert response.status_code == 200, response.text
        return [msgspec.json.decode(line, type=Generated) for line in response.content.splitlines()]

    def score(self, *items: ScoreItem) -> list[Scored]:
        response = self.post("/v1/score", *items)
        assert response.status_code == 200, response.text
        return [msgspec.json.decode(line, type=Scored) for line in response.content.splitlines()]

    def stats(self) -> EngineStats:
        return msgspec.json.decode(self.client.get("/v1/stats").content, type=EngineStats)

    def settle(self) -> EngineStats:
        """Return the figures once nothing runs or waits."""
        wait_for(lambda: not (stats := self.stats()).running and not stats.waiting, "nothing runs or waits", self.stats)
        return self.stats()

    def open(self, item: GenerateItem) -> socket.socket:
        """Send an item on a bare connection and leave it open."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.socket))
        body = msgspec.json.encode(item)
        connection.sendall(b"POST /v1/generate HTTP/1.1\r\nhost: e\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        return connection

    def close(self) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()


@pytest.fixture(scope="module", params=ENGINES)
def which(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def engine(which: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    flags = ("--slots", "8", "--queue", "64", "--attempt", "a-17", "--weights-sha256", "ab" * 32, "--numerics", "fp32")
    running = Engine(which, tmp_path_factory.mktemp("e"), *flags)
    yield running
    running.close()


def endless(name: str) -> GenerateItem:
    """An item that runs until it is cancelled."""
    return GenerateItem(id=name, text=name, sampling=Sampling(max_tokens=10_000_000), stops=Stops(end_of_text=False))


def test_health_says_who_it_is(engine: Engine) -> None:
    health = msgspec.json.decode(engine.client.get("/v1/health").content, type=EngineHealth)
    assert (health.ok, health.attempt, health.weights_sha256) == (True, "a-17", "ab" * 32)
    assert (health.numerics, health.device, health.vocabulary) == ("fp32", "cpu", 257)
    assert health.pid == engine.process.pid
    assert health.model == builtin_checkpoint_path().stem


def test_items_of_one_request_come_back_each_once(engine: Engine) -> None:
    items = [GenerateItem(id=str(i), text=f"{i}+1=", n=1 + i % 2, sampling=Sampling(max_tokens=4)) for i in range(40)]
    results = engine.generate(*items)
    assert sorted((r.id, r.index) for r in results) == sorted((i.id, k) for i in items for k in range(i.n))
    assert all(r.stop != "error" for r in results)


def test_answers_stream_before_the_request_is_done(engine: Engine) -> None:
    quick = GenerateItem(id="quick", text="a", sampling=Sampling(max_tokens=1))
    body = b"\n".join(map(msgspec.json.encode, (endless("slow"), quick)))
    with engine.client.stream("POST", "/v1/generate", content=body) as response:
        first = json.loads(next(response.iter_lines()))
        assert first["id"] == "quick"
    engine.settle()


def test_a_closed_connection_cancels_its_items(engine: Engine) -> None:
    connection = engine.open(endless("left"))
    wait_for(lambda: engine.stats().running, "it runs")
    before = engine.stats().finished
    connection.close()
    assert engine.settle().finished == before


def test_a_connection_that_is_reset_cancels_its_items(engine: Engine) -> None:
    connection = engine.open(GenerateItem(id="reset", text="a", n=2, sampling=Sampling(max_tokens=1)))
    long = engine.open(endless("reset"))
    time.sleep(0.1)  # answers lie unread in the first one's buffer: closing resets it
    connection.close()
    long.close()
    engine.settle()


def test_a_sample_of_a_group_is_seen_while_it_is_generated(engine: Engine) -> None:
    items = [msgspec.structs.replace(endless(f"7.1.{row}"), group="j7", n=2) for row in (9, 10)]
    connections = [engine.open(item) for item in items]

    def now(**asked: object) -> GroupNow:
        return msgspec.json.decode(engine.client.get("/v1/groups/j7/now", params=asked).content, type=GroupNow)

    wait_for(lambda: now().count == 4 and now().tokens, "all four run")
    first = now()
    assert (first.id, first.index, first.place, first.prompt) == ("7.1.9", 0, 0, "7.1.9")
    assert first.max_tokens == 10_000_000
    assert [(now(id="7.1.9", step=n).id, now(id="7.1.9", step=n).index) for n in (1, 2, 3, 4)] == [
        ("7.1.9", 1), ("7.1.10", 0), ("7.1.10", 1), ("7.1.9", 0),
    ]  # fmt: skip
    assert now(id="7.1.9", index=1, step=-1).place == 0
    assert now(id="7.1.9", index=5).id == "7.1.10", "one that has ended gives place to the next"
    assert now(id="8").place == 0
    wait_for(lambda: now().tokens >= 600, "it is longer than what is shown")
    assert len(now().text) <= 500
    assert engine.client.get("/v1/groups/other/now").json() == {"count": 0}
    assert engine.client.get("/v1/groups/j7/now?step=x").status_code == 400
    for connection in connections:
        connection.close()
    engine.settle()


def test_delete_ends_an_item_with_an_error(engine: Engine) -> None:
    body = msgspec.json.encode(endless("doomed/1"))
    with engine.client.stream("POST", "/v1/generate", content=body) as response:
        other = httpx.Client(transport=httpx.HTTPTransport(uds=str(engine.socket)), base_url="http://e")
        assert other.delete("/v1/requests/doomed%2F1").json() == {"cancelled": 1}
        assert other.delete("/v1/requests/nobody").status_code == 404
        other.close()
        (line,) = response.iter_lines()
    assert (json.loads(line)["stop"], json.loads(line)["error"]) == ("error", "cancelled")
    engine.settle()


def test_delete_leaves_the_other_items_of_the_request_alone(engine: Engine) -> None:
    ends = Sampling(max_tokens=20, temperature=1.0)
    items = [endless("doomed"), *(GenerateItem(id=f"fine{i}", text="ab", n=2, sampling=ends) for i in range(12))]
    with engine.client.stream("POST", "/v1/generate", content=b"\n".join(map(msgspec.json.encode, items))) as response:
        lines = response.iter_lines()
        results = [json.loads(next(lines))]
        other = httpx.Client(transport=httpx.HTTPTransport(uds=str(engine.socket)), base_url="http://e")
        other.delete("/v1/requests/doomed")
        other.close()
        results += map(json.loads, lines)
    answered = sorted((r["id"], r.get("index", 0)) for r in results)
    assert answered == sorted([("doomed", 0), *((f"fine{i}", k) for i in range(12) for k in range(2))])


def test_an_item_can_be_followed_while_it_is_generated(engine: Engine) -> None:
    connection = engine.open(endless("watched"))
    wait_for(lambda: engine.stats().running, "it runs")
    with engine.client.stream("GET", "/v1/requests/watched/tail") as response:
        lines = response.iter_lines()
        pieces = [json.loads(next(lines)) for _ in range(3)]
    assert all((piece["id"], piece["index"]) == ("watched", 0) and piece["text"] for piece in pieces)
    connection.close()
    engine.settle()
    assert engine.client.get("/v1/requests/watched/tail").status_code == 404


def test_a_full_queue_is_429_and_takes_nothing(engine: Engine) -> None:
    connections = [engine.open(endless(str(i))) for i in range(8)]
    wait_for(lambda: engine.stats().running == 8, "all slots are taken")
    connections += [engine.open(endless(f"w{i}")) for i in range(60)]
    wait_for(lambda: engine.stats().waiting == 60, "the others wait")
    response = engine.post("/v1/generate", *(GenerateItem(id=str(i), text="a") for i in range(5)))
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) >= 1
    assert set(response.json()) == {"code", "detail", "hint"}
    assert engine.stats().waiting == 60
    assert engine.stats().room == 0
    for connection in connections:
        connection.close()
    assert engine.settle().room == 32


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/generate", b"{not json", "line 1"),
        ("/v1/generate", b'{"id":"a","text":"b"}\n{"id":"c","text":"d","n":0}', "line 2"),
        ("/v1/generate", b'{"id":"a","text":5}', "text"),
        ("/v1/generate", b"", "no item"),
        ("/v1/generate", b'{"id":"a","text":"\\ud800"}', "line 1"),
        ("/v1/score", b'{"id":"a","continuations":["b"]}', "exactly one"),
        ("/v1/score", b"\xff\xfe", "line 1"),
    ],
)
def test_a_bad_request_is_400_with_a_sentence(engine: Engine, path: str, body: bytes, words: str) -> None:
    response = engine.client.post(path, content=body)
    assert response.status_code == 400
    assert set(response.json()) == {"code", "detail", "hint"}
    assert words in response.json()["detail"]


def test_an_unknown_route_is_404(engine: Engine) -> None:
    assert engine.client.get("/v1/nothing").status_code == 404


def test_lines_have_these_fields_and_streams_this_type(engine: Engine) -> None:
    """Compared by name: a field that only the real engine sends is one that tests with the stub would not see."""
    short = Sampling(max_tokens=4)
    plain, kept = (
        GenerateItem(id="a", text="1+1=", n=2, sampling=short),
        GenerateItem(id="b", text="c", keep=True, sampling=short),
    )
    response = engine.post("/v1/generate", plain, kept)
    assert response.headers["content-type"].startswith("application/x-ndjson")
    lines = {(line["id"], line.get("index", 0)): line for line in map(json.loads, response.content.splitlines())}
    fields = {"id", "ids", "text", "usage", "prompt_ids", "ttl_s"}  # and `stop`, unless it is "length"
    found = {name: set(line) - {"stop"} for name, line in lines.items()}
    assert found == {("a", 0): fields, ("a", 1): fields | {"index"}, ("b", 0): fields}
    assert {len(line["prompt_ids"]) for line in lines.values()} == {5, 2}, "token 0 comes first"
    scored = engine.post("/v1/score", ScoreItem(id="a", context="1+1=", continuations=("2", "3")))
    (line,) = map(json.loads, scored.content.splitlines())
    assert set(line) == {"id", "scores", "usage"}
    assert [set(score) for score in line["scores"]] == [{"logprob", "tokens", "greedy"}] * 2
    missing = engine.post("/v1/score", ScoreItem(id="a", continue_from=Continue(id="nobody"), continuations=("2",)))
    assert json.loads(missing.content) == {"id": "a", "error": "gone"}
    for path, kind in (("/v1/health", EngineHealth), ("/v1/stats", EngineStats)):
        assert set(engine.client.get(path).json()) == set(kind.__struct_fields__)


def test_an_answer_follows_from_prompt_and_key(engine: Engine) -> None:
    item = GenerateItem(id="a", text="12+", n=3, keys=(5, 6, 5), sampling=Sampling(max_tokens=30, temperature=2.0))
    first = {answer.index: answer.ids for answer in engine.generate(item)}
    beside = engine.generate(GenerateItem(id="b", text="other"), item)
    assert {answer.index: answer.ids for answer in beside if answer.id == "a"} == first
    assert first[0] == first[2] != first[1]


def test_continue_from_equals_sending_the_ids(engine: Engine) -> None:
    think = GenerateItem(
        id="cot", text="12+34=", n=2, keys=(1, 2), keep=True, sampling=Sampling(max_tokens=5, temperature=1.0)
    )
    for sample in engine.generate(think):
        assert sample.ttl_s > 0
        tail = "\nans:"
        sampling = Sampling(max_tokens=6, temperature=1.0, presence=0.2)
        kept = GenerateItem(
            id="k", continue_from=Continue(id="cot", index=sample.index, tail=tail), keys=(9,), sampling=sampling
        )
        ids = (*sample.prompt_ids, *sample.ids, *(byte + 1 for byte in tail.encode()))
        sent = GenerateItem(id="s", ids=ids, keys=(9,), sampling=sampling)
        (one,), (two,) = engine.generate(kept), engine.generate(sent)
        assert (one.ids, one.text, one.stop, one.prompt_ids) == (two.ids, two.text, two.stop, two.prompt_ids)
        assert one.usage.cached > 0
    (gone,) = engine.generate(GenerateItem(id="g", continue_from=Continue(id="nobody")))
    assert (gone.stop, gone.error) == ("error", "gone")


def test_scores_and_figures(engine: Engine) -> None:
    before = engine.settle()
    (scored,) = engine.score(ScoreItem(id="q", context="7+8=", continuations=("15", "16", "")))
    assert [s.tokens for s in scored.scores] == [2, 2, 0]
    assert scored.scores[2].logprob == 0.0
    after = engine.settle()
    assert after.finished == before.finished + 1
    assert after.steps > before.steps
    assert after.slots == 8
    assert after.rss_bytes > 1 << 20


def test_the_step_counter_moves_and_goes_on_when_idle(engine: Engine) -> None:
    def beat() -> int:
        return struct.unpack("<QQ", engine.liveness.read_bytes())[0]

    first = beat()
    engine.generate(GenerateItem(id="a", text="a", sampling=Sampling(max_tokens=3)))
    second = beat()
    assert second >= first + 2  # the answer may leave before the count of its last step
    wait_for(lambda: beat() > second, "it beats though nothing is asked")


def test_sigterm_stops_it_and_removes_the_socket(which: str, tmp_path: Path) -> None:
    engine = Engine(which, tmp_path, "--numerics", "fast")
    connection = engine.open(endless("x"))
    wait_for(lambda: engine.stats().running, "it runs")
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(LIMIT_S) == 0
    assert not engine.socket.exists()
    assert engine.process.stderr is not None
    assert engine.process.stderr.read() == ""
    connection.close()
    engine.close()


def test_without_a_daemon_and_work_it_ends_by_itself(which: str, tmp_path: Path) -> None:
    """Whether the engine is needed depends on locks alone: the daemon's, and those of processes that give it work."""
    daemon_lock = tmp_path / "daemon.lock"
    with daemon_lock.open("w") as daemon:
        process_locks.hold(daemon.fileno())
        engine = Engine(
            which, tmp_path, "--numerics", "fp32", "--daemon-lock", str(daemon_lock), "--idle-unload-s", "0.5"
        )

        def goes_on() -> None:
            first = struct.unpack("<QQ", engine.liveness.read_bytes())[0]
            wait_for(lambda: struct.unpack("<QQ", engine.liveness.read_bytes())[0] > first + 3, "it beats")
            assert engine.process.poll() is None

        goes_on()
        with engine.liveness.open("rb") as one, engine.liveness.open("rb") as other:
            process_locks.hold(one.fileno(), shared=True)
            process_locks.hold(other.fileno(), shared=True)
            daemon.close()
            one.close()
            goes_on()
            connection = engine.open(endless("x"))
            wait_for(lambda: engine.stats().running, "it runs")
    goes_on()
    connection.close()
    assert engine.process.wait(LIMIT_S) == 5
    assert not engine.socket.exists()
    assert engine.process.stderr is not None
    said = engine.process.stderr.read()
    assert said == "no daemon runs, and there was no work for 0.5 s: the engine exits\n"
    engine.close()


@pytest.mark.parametrize("idle_s", ["0", "2"])
def test_a_daemon_whose_lock_is_not_even_there_is_none(which: str, tmp_path: Path, idle_s: str) -> None:
    """The engine may still be loading then, which is not work."""
    flags = ("--daemon-lock", str(tmp_path / "none" / "daemon.lock"), "--idle-unload-s", idle_s)
    said = ends_with(which, 5, "--socket", str(tmp_path / "s"), *flags)
    assert said == f"no daemon runs, and there was no work for {idle_s} s: the engine exits\n"


def ends_with(which: str, code: int, *flags: str, model: Path | None = None) -> str:
    """Return the sentence with which the engine refuses to start."""
    process = start(which, *flags, model=model)
    _, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code
    assert errors.count("\n") == 1, errors
    return errors


def test_a_checkpoint_that_does_not_load_is_exit_code_3(which: str, tmp_path: Path) -> None:
    (tmp_path / "x.pth").write_bytes(b"PK\x03\x04 torn")
    assert "x.pth" in ends_with(which, 3, "--socket", str(tmp_path / "s"), model=tmp_path / "x.pth")
    assert not (tmp_path / "s").exists()


def test_a_checkpoint_that_is_another_file_than_was_named_is_not_read(which: str, tmp_path: Path) -> None:
    """A path may lead elsewhere by the time the engine opens it: here to a file that does not even load."""
    (tmp_path / "link.pth").symlink_to("/etc/hostname")
    flags = ("--socket", str(tmp_path / "s"), "--inodes", "1:2")
    said = ends_with(which, 3, *flags, model=tmp_path / "link.pth")
    assert "it is not the file that was asked for" in said


def test_a_taken_socket_is_exit_code_1(which: str, engine: Engine) -> None:
    assert "another process answers" in ends_with(which, 1, "--socket", str(engine.socket))
    assert engine.client.get("/v1/health").status_code == 200


def bare_engine(tmp_path: Path, before: str) -> "subprocess.Popen[bytes]":
    """An engine as on a node that has torch and nothing of ours installed; `before` is done in it first."""
    paths = ":".join(str(ROOT / room) for room in (".", "engine", "kernels", "weights"))
    block = f"import sys; {before}; from rwkv_engine.__main__ import main; sys.exit(main())"
    argv = [sys.executable, "-c", block, "serve", str(builtin_checkpoint_path()), "--socket", str(tmp_path / "s")]
    return subprocess.Popen(argv, env={"PYTHONPATH": paths, "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"})


def test_a_signal_that_comes_as_soon_as_the_socket_shows_ends_it_as_any_other(tmp_path: Path) -> None:
    at_once = (
        "import os, rwkv_engine.serving.process as serve; real = serve.bind_unix; "
        "serve.bind_unix = lambda path: (real(path), os.kill(os.getpid(), 15))[0]"
    )
    assert bare_engine(tmp_path, at_once).wait(LIMIT_S) == 0


def test_it_runs_with_bare_paths_and_four_libraries(tmp_path: Path) -> None:
    process = bare_engine(tmp_path, "sys.modules['pyrwkv_tokenizer'] = None")
    wait_for_socket(tmp_path / "s", process)  # type: ignore[arg-type]
    process.terminate()
    assert process.wait(LIMIT_S) == 0
