"""A store that is away: at the start, for a while, or without an answer. The daemon answers, says so, loses nothing."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from locked_store import locked_store
from waiting import LIMIT_S, wait_for

from rwkv_daemon.store.watched import WatchedStore
from rwkvctl.protocol.errors import NotNowError

WORK = {"limit": 10, "settings": {"k": "8", "temperature": "1.0"}}
SAMPLES = 80
COUNTED = 20_000_000
COUNTING = (
    f"WITH RECURSIVE number(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM number WHERE i < {COUNTED}) "
    "SELECT COUNT(*) AS n FROM number"
)
"""Takes seconds."""


def fill(path: Path) -> None:
    """Take all the room there is."""
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)


def status(node: Any) -> dict[str, Any]:
    return dict(node.api.get("/v1/status").value)


def says(node: Any, text: str) -> bool:
    return text in status(node).get("trouble", "")


def figure(node: Any, name: str) -> float:
    (found,) = [line for line in node.cli("metrics").stdout.splitlines() if line.startswith(f"rwkvctl_{name} ")]
    return float(found.split()[-1])


def underway(node: Any) -> str:
    """A job in the middle, that stays there."""
    node.engines_do(answers=20)
    (name,) = node.dispatch(**WORK)
    node.wait_until_some(name, 20)
    return str(name)


def check_whole(node: Any, name: str) -> None:
    """The store comes back, the job comes to its end, and nothing was generated twice."""
    node.until(lambda: not status(node)["trouble"], "the store is back")
    assert node.wait_for_state(name, "done", "failed")["score"]["n"] == SAMPLES
    places = node.stage_lines(name)
    assert len(set(places)) == len(places)


@pytest.fixture
def url(postgres_server: Any) -> str:
    return str(postgres_server.database())


@pytest.fixture
def small_disk_node(new_node: Callable[..., Any]) -> Iterator[Any]:
    """A node whose home is a file system of its own."""
    node = new_node(min_free_disk_bytes="65536")
    if os.geteuid() != 0:
        pytest.skip("needs root: to mount a small tmpfs")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(node.home)], check=False).returncode:
        pytest.skip("needs mount: not allowed here")
    try:
        yield node
    finally:
        node.close()
        subprocess.run(["umount", "--lazy", str(node.home)], check=False)


def remount(node: Any, how: str) -> None:
    """As soon as nobody writes: the shims of workers that were killed write how they ended."""
    argv = ["mount", "-o", f"remount,{how}", str(node.home)]
    wait_for(lambda: not subprocess.run(argv, capture_output=True, check=False).returncode, "it is remounted")


async def test_a_long_query_is_not_taken_for_silence(store_at: Path | str) -> None:
    store = WatchedStore(store_at, "rwkvctl")
    await store.open()
    assert store.inner is not None
    answered, ask = [], store.inner.probe
    began = asyncio.Event()

    async def probe() -> None:
        await ask()
        answered.append(store.health.state)
        began.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store.inner), "probe", lambda _: probe())
        watching = asyncio.ensure_future(store.watch())
        long = asyncio.ensure_future(store.all(COUNTING))
        await asyncio.wait({long, asyncio.ensure_future(began.wait())}, return_when=asyncio.FIRST_COMPLETED)
        assert not long.done(), "it was asked while the query went on"
        assert (await long)[0]["n"] == COUNTED
        watching.cancel()
    assert set(answered) == {"well"}
    assert store.health.state == "well"
    await store.close()


def test_a_frozen_server_holds_up_no_request(new_node: Callable[..., Any], url: str, postgres_server: Any) -> None:
    node = new_node(store=url).start()
    name = underway(node)
    node.cli("status")
    before = node.cli("jobs").stdout
    assert name in before
    with postgres_server.frozen():
        node.engines_do()
        known = node.api.get("/v1/status").value  # under way as the server froze, or asked after that
        assert known["running"][0]["id"] == name
        node.until(lambda: says(node, "does not answer"), "the status says so")
        now = status(node)
        assert now["stale_since"] >= known["as_of"][:19]
        assert now["running"][0]["id"] == name
        assert now["engines"], "what is in memory is as it is"
        shown = node.cli("status")
        assert "the store has not answered since" in shown.stderr
        assert name in shown.stdout
        assert node.cli("jobs").stdout == before, "of the jobs what was known"
        assert figure(node, "store_away") == 1
        refused = node.cli("stop", name, "--json", check=False, patient=False)
        assert refused.returncode == 9
        assert json.loads(refused.stdout)["code"] == "store-trouble"
        assert json.loads(refused.stdout)["retry"]
        assert "cannot be used since" in refused.stderr
        assert node.cli("doctor", check=False).returncode == 1
        samples = node.home / "runs" / name / "samples-1.jsonl"
        node.until(lambda: samples.read_text().count('"sample"') == SAMPLES, "the runner went on")
    check_whole(node, name)
    assert not status(node).get("stale_since")
    assert figure(node, "store_away") == 0


def test_a_daemon_ends_while_its_server_is_frozen(new_node: Callable[..., Any], url: str, postgres_server: Any) -> None:
    node = new_node(store=url).start()
    with postgres_server.frozen():
        node.until(lambda: says(node, "does not answer"), "the status says so")
        assert node.terminate() == 0


@pytest.mark.parametrize("how", ["gone", "frozen"])
def test_a_server_that_is_not_there_at_the_start(
    new_node: Callable[..., Any], url: str, postgres_server: Any, how: str
) -> None:
    node = new_node(store=url).start()
    name = underway(node)
    node.kill()
    node.engines_do()
    with contextlib.ExitStack() as undo:
        if how == "gone":
            postgres_server.stop()
            undo.callback(postgres_server.start)
        else:
            undo.enter_context(postgres_server.frozen())
        node.start()
        assert node.daemon.poll() is None
        assert "cannot be used since" in status(node)["trouble"]
        assert "the PostgreSQL database" in status(node)["trouble"]
        with pytest.raises(NotNowError):
            node.hasty.post("/v1/stop", {"jobs": [name]})
        assert figure(node, "store_away") == 1
    check_whole(node, name)


def test_followers_hear_of_it_and_miss_nothing(new_node: Callable[..., Any], url: str, postgres_server: Any) -> None:
    node = new_node(store=url).start()
    node.dispatch(limit=1)
    heard = node.api.stream("/v1/events", LIMIT_S, follow=True, since=0)
    next(heard)
    postgres_server.stop()
    try:
        late = node.api.stream("/v1/events", LIMIT_S, follow=True, since=0)
        first = json.loads(next(line for line in heard if b'"store"' in line))
        assert "cannot be used since" in first["text"]
        assert json.loads(next(late))["kind"] in {"heartbeat", "engine.stats", "daemon", "lease"}
    finally:
        postgres_server.start()
    told = next(line for line in heard if b"can be used again:" in line)
    assert told in list(iter_until(late, told))


def iter_until(lines: Iterator[bytes], last: bytes) -> Iterator[bytes]:
    for line in lines:
        yield line
        if line == last:
            return


def test_a_full_disk_does_not_keep_the_daemon_from_starting(small_disk_node: Any) -> None:
    node = small_disk_node.start()
    name = underway(node)
    node.kill()
    filler = node.home / "filler"
    fill(filler)
    (node.home / "store.sqlite-shm").unlink()
    fill(node.home / "rest")
    node.start()
    assert node.daemon.poll() is None, node.log()
    found = status(node)
    assert "store.sqlite: No space left on device" in found["trouble"]
    assert [job["id"] for job in found["running"]] == [name], "the jobs are known all the same"
    assert "cannot be written since" in node.cli("status").stderr
    assert figure(node, "store_trouble") == 1
    with pytest.raises(NotNowError, match="cannot be written"):
        node.hasty.post("/v1/stop", {"jobs": [name]})
    assert node.cli("doctor", check=False).returncode == 1
    node.terminate()
    node.start()
    filler.unlink()
    (node.home / "rest").unlink()
    node.engines_do()
    check_whole(node, name)


def test_a_file_system_that_turned_read_only(small_disk_node: Any) -> None:
    node = small_disk_node.start()
    name = underway(node)
    node.close()  # what has a file open for writing keeps it from being remounted
    node.engines_do()
    remount(node, "ro")
    node.settings["RWKVCTL_SOCKET"] = str(node.home.parent / "other.sock")
    node.start()
    assert node.daemon.poll() is None, node.log()
    assert says(node, "store.sqlite: Read-only file system"), status(node)["trouble"]
    assert [job["id"] for job in status(node)["running"]] == [name]
    remount(node, "rw")
    check_whole(node, name)


def test_a_store_that_another_program_locks(node: Any) -> None:
    node.until(lambda: status(node)["leases"], "it is up")
    with locked_store(node.home):
        selection = {"models": ["builtin"], "only_datasets": ["demo_arith"], "limit": 1}
        with pytest.raises(NotNowError):
            node.hasty.post("/v1/dispatch", {"selection": selection})
        assert status(node)["trouble"]
    node.until(lambda: not status(node)["trouble"], "it can be written again")
    (name,) = node.dispatch(limit=1)
    node.wait_for_state(name, "done")


def test_a_process_knows_how_long_it_has_waited_for_a_processor() -> None:
    """Ten threads of a processor that has one place for them: nine always wait."""
    script = (
        "import os, subprocess, sys\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from rwkv_daemon.store.processor_wait import waited_s\n"
        "others = [subprocess.Popen([sys.executable, '-I', '-S', '-c', 'while True: pass']) for _ in range(9)]\n"
        "before, steps = waited_s(), 0\n"
        "while waited_s() - before < 0.5:\n"
        "    steps += 1\n"
        "[(one.kill(), one.wait()) for one in others]\n"
        "print('waited')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.stdout == "waited\n", done.stderr
