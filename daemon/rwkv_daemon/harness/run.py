"""`python -m rwkv_daemon.harness.run RUNDIR`: one attempt at a job that an outside harness does.

It serves the engines' OpenAI routes to the harness alone, watches it, and reads what it wrote: whether that is a result
is decided by count, never by the exit code. The exit codes of this program are those of a runner.
"""

import asyncio
import os
import secrets
import signal
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from rwkv_daemon.harness import answers, environment, fetching, manifest, supervision
from rwkv_daemon.harness.answers import KeptAnswers
from rwkv_daemon.harness.enclosure import CANNOT_ISOLATE, PORT, SIGNALLED
from rwkv_daemon.harness.environment import Asked, Places
from rwkv_daemon.harness.installation import Installation
from rwkv_daemon.harness.manifest import Manifest
from rwkv_daemon.harness.outputs import result
from rwkv_daemon.harness.outputs.parsers import PARSERS, TaskSamples
from rwkv_daemon.harness.outputs.result import HarnessResult, NoResultsError, ResultError
from rwkv_daemon.harness.outputs.tally import GENERATED
from rwkv_daemon.harness.plans import plan_of
from rwkv_daemon.harness.relay import EngineRelay
from rwkv_daemon.harness.supervision import EndedError, Supervisor, say
from rwkv_daemon.rules import exit_codes
from rwkv_daemon.workers.run_directory import HarnessSpec, JobSpec, Record, RunDir, StageRecord, UnknownFormatError
from rwkvctl.http.server import Server
from rwkvctl.settings.folder_trees import remove_tree


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
    one = manifest.parse(harness.manifest)
    at = Installation(Path(harness.folder), Path(harness.own))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if at.tasks() is None:
        again = f"`rwkvctl harness build {harness.name}`, then `rwkvctl resume j{spec.job}`"
        raise EndedError(
            exit_codes.HARNESS_FAILED, f"{harness.name} {one.version} is not installed here any more: {again}"
        )
    base, copy = folder.path / f"harness-{spec.attempt}", at.copy_of_own(harness.own_sha256)
    cache = fetching.folder_of(at.fetched, one, harness) if one.fetch else at.cache
    places = Places(out=base / "out", cache=cache, venv=at.venv, own=copy if spec.unsandboxed else at.own)
    for old in folder.path.glob("harness-[0-9]*"):  # of attempts that were killed, too
        with suppress(OSError):
            remove_tree(old)
    environment.made(places)
    with at.used(), removed(places):
        async with served(folder, base, network=one.network or spec.unsandboxed) as found:
            asked = Asked(
                run=f"j{spec.job}-{spec.attempt}", model=spec.model, weights_path=harness.weights_path,
                weights_sha256=harness.weights_sha256, tasks=harness.task, seed=spec.seed, base_url=found.base_url,
                max_tokens=int(harness.settings.get("max_tokens", one.max_tokens)), api_key=found.relay.token,
                served_as=await supervision.unless_stopped(found.relay.served_as(), stop),
            )  # fmt: skip
            supervisor = Supervisor(folder, spec.attempt, one, found.relay, stop)
            if one.fetch:
                await fetching.fetch(supervisor, spec, one, asked, places, copy)
            else:
                places.cache.mkdir(exist_ok=True, mode=0o700)
            environment.write_netrc(places, found.relay.token)
            words = words_of(one, environment.values(asked, places, one), harness.settings)
            plan = plan_of(
                spec, one, asked, places, words, relay=found.socket, sources={places.own: copy},
                writable=(places.out,) if one.fetch else (places.out, places.cache),
            )  # fmt: skip
            code, last_words = await supervisor.run(plan)
    reading = asyncio.to_thread(keep, folder, spec, found.relay, code, last_words)
    await supervision.while_alive(folder, spec.attempt, reading)


@contextmanager
def removed(places: Places) -> Iterator[None]:
    """Remove the home of a run, which holds its token, and its temporary folder, however the block ends."""
    try:
        yield
    finally:
        for name in ("home", "tmp"):
            with suppress(OSError):
                remove_tree(places.out / name)


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


def words_of(one: Manifest, known: Mapping[str, str], settings: Mapping[str, str]) -> list[str]:
    """Return the command line of a run: that of the manifest, and what the settings of the job add to it."""
    words = [*manifest.filled(one.command, known)]
    for name, given in one.options.items():
        if name in settings:
            words += manifest.filled(given, {**known, "value": settings[name]})
    return words


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
    parser = PARSERS[manifest.parse(spec.harness.manifest).parser]
    try:
        found = parser.results(out, task)
        samples = 0
        if task in found:
            read = parser.samples(out, task, found, next(iter(relay.traffic.engines), ""))
            write_samples(samples_file(base), read, relay)
            samples, found[task] = read.tally.count, read.tally.counted(found[task])
        judged = result.judged(task, found, samples, how, spec.limit)
    except NoResultsError as error:
        judged = HarnessResult(state="failed", why=f"{error} ({how})")
    except (ResultError, ValueError, TypeError, OverflowError, RecursionError) as error:
        judged = HarnessResult(state="unparsable", why=f"{error} ({how})")
    return msgspec.structs.replace(judged, traffic=relay.traffic)


def samples_file(base: Path) -> Path:
    return base / "samples.jsonl"


def write_samples(path: Path, samples: TaskSamples, relay: EngineRelay) -> None:
    """Write samples as a file, durably."""
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for record in samples.records():
            file.write(encode(marked(record, relay)) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def marked(record: Record, relay: EngineRelay) -> Record:
    """Return a record that says so if its reply was cut off by the token limit."""
    if isinstance(record, StageRecord) and record.stop == GENERATED and relay.was_cut(record.text):
        return msgspec.structs.replace(record, stop="length")
    return record


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
