"""A sample that kills engines: tried twice in company, once alone, then an error; its neighbours lose nothing.

The runner is the real one. The engine is a stand-in on the real HTTP server, because the real one does not die of a
prompt: it drops every connection that carries the poisoned row.
"""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from waiting import LIMIT_S

from rwkv_daemon.workers import worker_process
from rwkv_daemon.workers.run_directory import (
    DOOMED,
    EngineEndpoint,
    EngineList,
    JobSpec,
    RunDir,
    SampleRecord,
    read_records,
)
from rwkv_data.prepare import prepared_sets
from rwkvctl.http import listeners, server
from rwkvctl.protocol.engine import Generated, GenerateItem, Usage
from rwkvctl.settings import process_locks

POISON = 7
ROWS = 150
LOST = 16


class DeadlyEngine:
    """Answers sums rightly; a request that holds the poisoned row is cut after its first answer."""

    def __init__(self, rows: list[dict[str, object]]) -> None:
        self.answers = {str(row["question"]): str(row["answer"]) for row in rows}
        self.poison = str(rows[POISON]["question"])
        self.deaths: list[int] = []

    async def __call__(self, request: server.Request) -> server.Response:
        items = [msgspec.json.decode(line, type=GenerateItem) for line in request.body.splitlines()]
        return server.Response(200, self.stream(items), server.NDJSON)

    async def stream(self, items):
        if any(item.text == self.poison for item in items):
            self.deaths.append(len(items))
            yield self.line(items[0]) if items[0].text != self.poison else b"\n"
            raise ConnectionResetError
        for item in items:
            yield self.line(item)

    def line(self, item: GenerateItem) -> bytes:
        answer = Generated(id=item.id, text=self.answers[item.text or ""], stop="stop_suffix", usage=Usage())
        return msgspec.json.encode(answer) + b"\n"


class DyingEngine(DeadlyEngine):
    """As one that was killed, until the kernel has come to all of its sockets: it takes requests, and answers none."""

    lost = 0

    async def __call__(self, request: server.Request) -> server.Response:
        self.lost += 1
        if self.lost <= LOST:
            raise ConnectionResetError
        return await super().__call__(request)


class KilledEngine(DeadlyEngine):
    """Ended again and again in the middle of its answers, as its record says: by whom."""

    kills = 6
    wanted = True

    def __init__(self, rows: list[dict[str, object]], folder: Path) -> None:
        super().__init__(rows)
        self.live = folder / "live"

    async def stream(self, items):
        self.wanted &= process_locks.is_held(self.live)
        if len(self.deaths) < self.kills:
            self.deaths.append(len(items))
            raise ConnectionResetError
        async for line in super().stream(items):
            yield line


RECORD = worker_process.ShimRecord(shim=1, shim_start=1, pid=2, pid_start=2, boot_id="b", done=True, oom="")


@pytest.mark.parametrize(
    ("ending", "doomed", "counts"),
    [
        ({"signal": signal.SIGKILL}, False, False),
        ({"code": 0}, False, False),  # SIGTERM
        ({"signal": signal.SIGKILL, "done": False}, False, False),  # its shim is gone as well
        ({"signal": signal.SIGKILL}, True, True),  # the daemon's doing: it hung
        ({"signal": signal.SIGKILL, "oom": "machine"}, False, True),
        ({"signal": signal.SIGSEGV}, False, True),
        ({"code": 1}, False, True),
    ],
)
async def test_no_sample_is_suspected_of_what_somebody_outside_did(
    tmp_path: Path, ending: dict[str, Any], doomed: bool, counts: bool
) -> None:
    folder = tmp_path / "e1"
    folder.mkdir()
    (folder / "live").touch()
    if doomed:
        (folder / DOOMED).touch()
    (folder / "record.json").write_bytes(msgspec.json.encode(msgspec.structs.replace(RECORD, **ending)))
    engine = KilledEngine(demo_rows(tmp_path), folder)
    engine.poison = "no such question"
    samples = await ran(engine, tmp_path, folder=str(folder))
    assert (1 in engine.deaths) == counts, "a suspect is tried alone"
    assert all(sample.value == 1.0 for sample in samples.values()) or counts
    assert engine.wanted, "the engine knows that a runner is there"
    assert not process_locks.is_held(folder / "live")


@pytest.mark.parametrize("poisoned", [True, False])
async def test_only_the_sample_that_kills_alone_is_an_error(tmp_path: Path, poisoned: bool) -> None:
    rows = demo_rows(tmp_path)
    engine = DeadlyEngine(rows)
    if not poisoned:
        engine.poison = "no such question"
    samples = await ran(engine, tmp_path)
    errors = [row for row, sample in samples.items() if sample.reason == "error"]
    assert errors == ([POISON] if poisoned else [])
    assert all(sample.value == 1.0 for row, sample in samples.items() if row not in errors)
    if poisoned:
        assert len(engine.deaths) == 3
        assert engine.deaths[-1] == 1
        assert "alone" in samples[POISON].detail


async def test_an_engine_dies_once_however_many_requests_it_takes_meanwhile(tmp_path: Path) -> None:
    engine = DyingEngine(demo_rows(tmp_path))
    engine.poison = "no such question"
    samples = await ran(engine, tmp_path)
    assert engine.lost > LOST
    assert all(sample.value == 1.0 for sample in samples.values())


def demo_rows(data_dir: Path) -> list[dict[str, object]]:
    from rwkv_data.definition import registry

    return [dict(row) for row in prepared_sets.load_rows(data_dir, registry.load("demo_arith"))]


async def ran(engine: DeadlyEngine, tmp_path: Path, *, folder: str = "") -> dict[int, SampleRecord]:
    """The samples of a job that a runner did with this engine, by row."""
    listener = listeners.bind_unix(tmp_path / "e.sock")
    serving = await server.Server(engine).start(listener)
    run = RunDir(tmp_path / "run")
    run.path.mkdir()
    write(run, tmp_path, folder)
    runner = await asyncio.create_subprocess_exec(sys.executable, "-m", "rwkv_daemon.runner", str(run.path))
    try:
        async with asyncio.timeout(LIMIT_S):
            assert await runner.wait() == 0
    finally:
        if runner.returncode is None:
            runner.kill()
        serving.close()
    samples = {r.row: r for r in read_records(run.samples(1)) if isinstance(r, SampleRecord)}
    assert len(samples) == ROWS
    return samples


def write(folder: RunDir, tmp_path: Path, engine: str) -> None:
    manifest = prepared_sets.read_manifest(tmp_path, "demo_arith")
    assert manifest is not None
    folder.write_desired("run")
    endpoint = EngineEndpoint(engine="e1", socket=str(tmp_path / "e.sock"), folder=engine)
    folder.write_engines(EngineList(epoch=1, endpoints=(endpoint,)))
    folder.write_spec(
        JobSpec(
            job=1, attempt=1, earlier=(), model="m", benchmark="demo_arith", kind="free_response", settings={}, seed=0,
            limit=ROWS, repeats=1, data_dir=str(tmp_path), rows_sha256=manifest.sha256, generation_key="g",
            grade_key="k",
        )
    )  # fmt: skip
