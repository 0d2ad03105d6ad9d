"""`python -m rwkv_daemon.harness.run RUNDIR`: one attempt at a job that an outside harness does.

It serves the engines' OpenAI routes to the harness alone, watches it, and reads what it wrote: whether that is a result
is decided by count, never by the exit code. The exit codes of this program are those of a runner.
"""

import asyncio
import os
import secrets
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from rwkv_daemon.harness import answers, environment, lm_eval_output, manifest, result, supervision
from rwkv_daemon.harness.answers import KeptAnswers
from rwkv_daemon.harness.enclosure import CANNOT_ISOLATE, PORT, SIGNALLED, EnclosurePlan
from rwkv_daemon.harness.environment import Asked, Places
from rwkv_daemon.harness.installation import Installation
from rwkv_daemon.harness.manifest import Manifest
from rwkv_daemon.harness.relay import EngineRelay
from rwkv_daemon.harness.result import HarnessResult, NoResultsError, ResultError
from rwkv_daemon.harness.supervision import EndedError, say
from rwkv_daemon.rules import exit_codes
from rwkv_daemon.workers.run_directory import HarnessSpec, JobSpec, RunDir, UnknownFormatError
from rwkvctl.http.server import Server


class Served(NamedTuple):
    """The relay of a run, its Unix socket (empty: it has a port of the node's loopback instead), and the address under
    which the harness reaches it."""

    relay: EngineRelay
    socket: str
    base_url: str


def main(arguments: list[str]) -> int:
    folder = RunDir(Path(arguments[0]).absolute())
    try:
        spec = folder.read_spec()
        assert spec.harness is not None
        asyncio.run(run(folder, spec, spec.harness))
    except EndedError as error:
        say(str(error))
        return error.code
    except UnknownFormatError as error:
        say(str(error))
        return exit_codes.CANNOT_RUN
    except (OSError, MemoryError) as error:
        traceback.print_exc()
        say(f"{type(error).__name__}: {error}")
        return exit_codes.TROUBLE
    except Exception as error:  # noqa: BLE001 - a bug fails this job, with its traceback in the log
        traceback.print_exc()
        say(f"{type(error).__name__}: {error}")
        return exit_codes.BROKEN
    say("finished")
    return 0


async def run(folder: RunDir, spec: JobSpec, harness: HarnessSpec) -> None:
    """Run the harness once and write its result. Raises EndedError, OSError."""
    one, at = manifest.parse(harness.manifest), Installation(Path(harness.folder), Path(harness.own))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if at.tasks() is None:
        again = f"`rwkvctl harness build {harness.name}`, then `rwkvctl resume j{spec.job}`"
        raise EndedError(
            exit_codes.HARNESS_FAILED, f"{harness.name} {one.version} is not installed here any more: {again}"
        )
    base = folder.path / f"harness-{spec.attempt}"
    copy = at.copy_of_own(harness.own_sha256)
    places = Places(out=base / "out", cache=at.cache, venv=at.venv, own=copy if spec.unsandboxed else at.own)
    for old in folder.path.glob("harness-[0-9]*"):  # of attempts that were killed, too
        shutil.rmtree(old, ignore_errors=True)
    environment.made(places)
    with at.used(), removed(places):
        async with served(folder, base, network=one.network or spec.unsandboxed) as found:
            environment.write_netrc(places, found.relay.token)
            asked = Asked(
                run=f"j{spec.job}-{spec.attempt}", model=spec.model, weights_path=harness.weights_path,
                weights_sha256=harness.weights_sha256, tasks=harness.task, seed=spec.seed, base_url=found.base_url,
                max_tokens=int(harness.settings.get("max_tokens", one.max_tokens)), api_key=found.relay.token,
                served_as=await supervision.unless_stopped(found.relay.served_as(), stop),
            )  # fmt: skip
            plan = plan_of(spec, harness, one, asked, places, found.socket)
            code, last_words = await supervision.supervised(folder, spec.attempt, one, found.relay, plan, stop)
    reading = asyncio.to_thread(keep, folder, spec, found.relay, code, last_words)
    await supervision.while_alive(folder, spec.attempt, reading)


@contextmanager
def removed(places: Places) -> Iterator[None]:
    """Remove the home of a run, which holds its token, and its temporary folder, however the block ends."""
    try:
        yield
    finally:
        for name in ("home", "tmp"):
            shutil.rmtree(places.out / name, ignore_errors=True)


@asynccontextmanager
async def served(folder: RunDir, base: Path, *, network: bool) -> AsyncIterator[Served]:
    """Serve the relay within the block: to a run with a `network` on the node's loopback."""
    relay = EngineRelay(folder, secrets.token_urlsafe(32), KeptAnswers(folder.path))
    server = Server(relay.handle, admit=relay.admit, at_once=4096, max_connections=4096)
    if network:
        listener, path = socket.create_server(("127.0.0.1", 0), backlog=1024), ""
        port = listener.getsockname()[1]
    else:
        listener, path, port = bound(base), str(base / "relay.sock"), PORT
    listening = await server.start(listener)
    try:
        yield Served(relay, path, f"http://127.0.0.1:{port}/v1")
    finally:
        listening.close()
        await server.close()
        relay.close()


def bound(base: Path) -> socket.socket:
    """Return a Unix socket `relay.sock` in a folder, whose path may be longer than a socket's may be."""
    descriptor = os.open(base, os.O_PATH | os.O_DIRECTORY)
    try:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"/proc/self/fd/{descriptor}/relay.sock")
        listener.listen(1024)
    finally:
        os.close(descriptor)
    return listener


def plan_of(
    spec: JobSpec, harness: HarnessSpec, one: Manifest, asked: Asked, places: Places, socket_path: str
) -> EnclosurePlan:
    """Return what the harness is started with; it sees a copy of the operator's tasks in their place."""
    copy = Installation(Path(harness.folder), Path(harness.own)).copy_of_own(harness.own_sha256)
    known = environment.values(asked, places, one)
    words = [*manifest.filled(one.command, known)]
    for name, given in one.options.items():
        if name in harness.settings:
            words += manifest.filled(given, known | {"value": harness.settings[name]})
    interpreter = (places.venv / "bin" / "python").resolve().parent.parent
    return EnclosurePlan(
        argv=tuple(words),
        environment=environment.of_run(asked, places, one),
        hidden=harness.hidden,
        shown={str(places.venv): str(places.venv), str(interpreter): str(interpreter), str(places.own): str(copy)},
        writable=(str(places.out), str(places.cache)),
        relay=socket_path,
        isolated=not spec.unsandboxed,
        parent=os.getpid(),
    )


def keep(folder: RunDir, spec: JobSpec, relay: EngineRelay, code: int, last_words: str) -> None:
    """Write the result and the samples of a harness that has ended. Raises EndedError if it has no usable result."""
    if code == exit_codes.NO_SANDBOX and last_words.startswith(CANNOT_ISOLATE):
        raise EndedError(code, last_words)
    base, signalled = folder.path / f"harness-{spec.attempt}", signal_of(code)
    found = found_in(base, spec, relay, f"signal {signalled}" if signalled else f"exit code {code}")
    if found.state not in result.USABLE and signalled:
        raise EndedError(exit_codes.TROUBLE, f"the harness was ended by signal {signalled}; {found.why}")
    if found.state not in result.USABLE:
        said = f"; its last words: {last_words}" if last_words else ""
        state = "" if found.state == "failed" else f"{found.state}: "
        raise EndedError(exit_codes.HARNESS_FAILED, f"{state}{found.why}{said}")
    result.write(folder.path, spec.attempt, found)
    if found.samples:  # all at once: the daemon takes none of a result that is not complete
        samples_file(base).replace(folder.samples(spec.attempt))
    answers.forget(folder.path)


def signal_of(code: int) -> int:
    """Return the signal that ended a harness; 0 for an exit code of its own, such as the 255 of `sys.exit(-1)`."""
    number = -code if code < 0 else code - SIGNALLED
    return number if 0 < number < signal.NSIG else 0


def found_in(base: Path, spec: JobSpec, relay: EngineRelay, how: str) -> HarnessResult:
    """Return what a harness has written for its task; its samples are in the samples file of `base` then."""
    assert spec.harness is not None
    out, task = base / "out", spec.harness.task
    try:
        found = lm_eval_output.results(out)
        samples = 0
        if task in found:
            read = lm_eval_output.Samples(out, task, found, next(iter(relay.traffic.engines), ""))
            write_samples(samples_file(base), read)
            samples, found[task] = read.count, read.counted()
        judged = result.judged(task, found, samples, how, spec.limit)
    except NoResultsError as error:
        judged = HarnessResult(state="failed", why=f"{error} ({how})")
    except (ResultError, ValueError, TypeError, OverflowError, RecursionError) as error:
        judged = HarnessResult(state="unparsable", why=f"{error} ({how})")
    return msgspec.structs.replace(judged, traffic=relay.traffic)


def samples_file(base: Path) -> Path:
    return base / "samples.jsonl"


def write_samples(path: Path, samples: lm_eval_output.Samples) -> None:
    """Write samples as a file, durably."""
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for record in samples.records():
            file.write(encode(record) + b"\n")
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
