"""What can go wrong on a node at night, as functions: each does its harm, waits, takes it back, says what it did."""

import contextlib
import random
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hostile import HOSTILE_TEXTS, LONG
from world import DISK_MB, World, fake_judge, kill, plainly

Fault = Callable[[World, random.Random], str]


def pick(world: World, draw: random.Random) -> tuple[str, Any] | None:
    """A running worker."""
    found = sorted(world.records(), key=lambda one: one[0])
    return draw.choice(found) if found else None


def kill_daemon(world: World, draw: random.Random) -> str:
    world.node.kill()
    return "kill -9 of the daemon"


def restart_daemon(world: World, draw: random.Random) -> str:
    world.node.daemon.terminate()
    world.node.daemon.wait(timeout=60)
    return "SIGTERM to the daemon"


def kill_worker(world: World, draw: random.Random) -> str:
    found = pick(world, draw)
    if found is None:
        return ""
    name, record = found
    whom = draw.choice(["worker", "shim", "both"])
    if whom != "shim":
        kill(record.pid, signal.SIGKILL)
    if whom != "worker":
        kill(record.shim, signal.SIGKILL)
    return f"kill -9 of {name} ({whom})"


def kill_everything(world: World, draw: random.Random) -> str:
    world.node.kill()
    pids = [pid for _, record in world.records() for pid in (record.shim, record.pid)]
    for pid in [*pids, *world.processes()]:
        kill(pid, signal.SIGKILL)
    return "kill -9 of everything at once"


def freeze(world: World, draw: random.Random) -> str:
    found = pick(world, draw)
    name, pid = (found[0], found[1].pid) if found and draw.random() < 0.7 else ("the daemon", world.daemon_pid)
    seconds = draw.uniform(0.5, 3.0)
    if not kill(pid, signal.SIGSTOP):
        return ""
    time.sleep(seconds)
    kill(pid, signal.SIGCONT)
    return f"SIGSTOP of {name} for {seconds:.1f} s"


def fill_disk(world: World, draw: random.Random) -> str:
    if not world.small_disk:
        return ""
    ballast = world.home.parent / "ballast"
    world.deaths.append(time.monotonic())
    with contextlib.suppress(OSError), ballast.open("wb") as file:
        for _ in range(2 * DISK_MB):
            file.write(bytes(1 << 19))
    time.sleep(draw.uniform(0.5, 3.0))
    ballast.unlink()
    world.deaths.append(time.monotonic())
    return "the disk full"


def start_on_full_disk(world: World, draw: random.Random) -> str:
    """It has to start, answer and say why; the log's index of SQLite is not there, as after a reboot."""
    if not world.small_disk:
        return ""
    world.node.kill()
    world.deaths.append(time.monotonic())
    ballast = world.home.parent / "ballast"
    with contextlib.suppress(FileNotFoundError):
        (world.home / "store.sqlite-shm").unlink()
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    world.start()
    world.must_answer("on a full disk")
    time.sleep(draw.uniform(0, 2))
    ballast.unlink()
    world.deaths.append(time.monotonic())
    return "a start on a full disk"


def lose_socket(world: World, draw: random.Random) -> str:
    world.node.socket.unlink(missing_ok=True)
    time.sleep(draw.uniform(0, 2))
    return "the socket's file deleted"


def hang_database(world: World, draw: random.Random) -> str:
    """Requests are answered all the same, and what is refused can be asked again."""
    if world.server is None:
        return ""
    seconds = draw.uniform(0.5, 6.0)
    world.deaths.append(time.monotonic())
    with world.server.frozen():
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            world.must_answer("while the database hangs")
            time.sleep(0.3)
    world.deaths.append(time.monotonic())
    return f"the database frozen for {seconds:.1f} s"


def slow_readers(world: World, draw: random.Random) -> str:
    """Clients that ask for much and take it a byte at a time, and then hang up or are cut off."""
    job = draw.choice(world.jobs)
    paths = ["/v1/events?since=0&follow=1", f"/v1/jobs/{job}/samples?limit=1000", "/v1/jobs?limit=1000", "/metrics"]
    clients = []
    for _ in range(draw.randrange(10, 60)):
        client = socket.socket(socket.AF_UNIX)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        with contextlib.suppress(OSError):
            client.settimeout(1)
            client.connect(str(world.node.socket))
            client.sendall(f"GET {draw.choice(paths)} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            client.setblocking(False)
        clients.append(client)
    end = time.monotonic() + draw.uniform(1, 4)
    while time.monotonic() < end:
        for client in clients:
            with contextlib.suppress(OSError):
                client.recv(1)
        time.sleep(0.02)
    for client in clients:
        client.close()
    return f"{len(clients)} slow readers"


def bad_clients(world: World, draw: random.Random) -> str:
    clients = []
    texts = [b"GET /v1/events?follow=1 HTTP/1.1\r\nhost: x\r\n\r\n", b"POST /v1/disp", b"\x00\xff" * 50, b""]
    for _ in range(draw.randrange(20, 80)):
        client = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            client.settimeout(1)
            client.connect(str(world.node.socket))
            client.sendall(draw.choice(texts))
        clients.append(client)
    time.sleep(draw.uniform(0, 1))
    for client in clients:
        client.close()
    return f"{len(clients)} rude clients"


def set_clock(world: World, draw: random.Random) -> str:
    seconds = draw.choice([-86400, 86400, -3600, 7200, 0])
    world.set_clock(seconds)
    return f"the wall clock off by {seconds} s"


def judge_outage(world: World, draw: random.Random) -> str:
    how = draw.choice([fake_judge.Do(status=503), fake_judge.Do(delay_s=4), fake_judge.Do(cut=True)])
    world.judge.behave = lambda _: how
    time.sleep(draw.uniform(0.5, 3.0))
    world.judge.behave = plainly
    return f"a judge that {'is out' if how.status != 200 else 'is slow' if how.delay_s else 'breaks off'}"


def hostile_judge(world: World, draw: random.Random) -> str:
    """A verdict may stand behind anything: line ends of every kind, controls, what only looks like JSON."""
    name, text = draw.choice([one for one in HOSTILE_TEXTS if len(one.text) <= LONG])

    def behave(asked: Any) -> Any:
        plain = plainly(asked)
        return replace(plain, text=f"{text} {plain.text}") if plain.text == "True" else plain

    world.judge.behave = behave
    time.sleep(draw.uniform(0.5, 3.0))
    world.judge.behave = plainly
    return f"a judge that writes {name}"


def restart_database(world: World, draw: random.Random) -> str:
    if world.server is None:
        return ""
    world.deaths.append(time.monotonic())
    world.server.stop()
    time.sleep(draw.uniform(0.1, 4.0))
    world.server.start()
    world.deaths.append(time.monotonic())
    return "the database crashed and came back"


def stop_some(world: World, draw: random.Random) -> str:
    """An operator who cannot decide. Whoever else is at work may make the daemon not answer: that is no fault here."""
    names = draw.sample(world.jobs, k=min(3, len(world.jobs)))
    with contextlib.suppress(Exception):
        world.node.api.post("/v1/stop", {"jobs": names})
    time.sleep(draw.uniform(0, 1))
    with contextlib.suppress(Exception):
        world.node.api.post("/v1/resume", {"jobs": names})
    return f"stop and resume of {', '.join(names)}"


FAULTS: tuple[tuple[Fault, int], ...] = (
    (kill_daemon, 4),
    (restart_daemon, 2),
    (kill_worker, 6),
    (kill_everything, 1),
    (freeze, 3),
    (fill_disk, 2),
    (bad_clients, 2),
    (set_clock, 2),
    (judge_outage, 2),
    (hostile_judge, 2),
    (stop_some, 3),
    (restart_database, 4),
    (start_on_full_disk, 2),
    (lose_socket, 2),
    (hang_database, 3),
    (slow_readers, 2),
)
"""Each with its weight."""


def strike(world: World, draw: random.Random) -> str:
    """One fault; what it was, empty where it could not be done."""
    fault = draw.choices([fault for fault, _ in FAULTS], [weight for _, weight in FAULTS])[0]
    return fault(world, draw)
