"""kill -9 at random moments of whatever takes part in a recipe, and the account of what was paid for meanwhile.

Of each key one request at most is in flight (`concurrency = 1`), and a daemon stores a reply before the key is free
again. So when a daemon is killed, it takes with it the last request of each key, unless that one's reply is in its
store. All else that was answered is stored, and may never be asked again. A runner takes nothing with it: what is in
flight then is kept by the daemon.
"""

import contextlib
import os
import random
import shutil
import signal
import socket
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import fake_judge
from live_node import LiveNode, kill_worker
from sums_recipes import change, shown
from waiting import wait_for

from rwkv_daemon.remote.sample_question import SampleQuestion
from rwkvctl.protocol.engine import Sampling, Turn

MAKER = b"rwkv_daemon.recipes.make_rows"
VICTIMS = ("daemon", "daemon", "runner", "server")
"""Of four kills so many hit each, in a random order, where no rows are being made."""


@dataclass
class MortalServer:
    """A server that can be stopped in the middle of its replies, and started at the same port."""

    fake: fake_judge.FakeJudge
    runs: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def start(self):
        self.runs.enter_context(fake_judge.in_thread(self.fake))

    def kill(self):
        self.runs.close()


@dataclass
class RandomKills:
    """Kills, and counts: `identities` are those of the models behind the server, by the first word of their keys, and
    `asks` says of a request whether it is a question of a recipe (and no trial of what the server does). `lost` are
    numbers of requests whose replies a daemon took with it, `done` what was killed. What is lost is the last reply for
    each key that is not in the store: so a daemon that keeps a reply late is not found out by it, one that does not
    keep it before the key's next request is."""

    node: LiveNode
    server: MortalServer
    identities: dict[str, str]
    asks: Callable[[fake_judge.Asked], bool]
    recipes: tuple[str, ...]
    seed: int
    lost: set[int] = field(default_factory=set)
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self):
        self.dice = random.Random(self.seed)

    def __str__(self):
        return f"seed {self.seed}, killed so far: {dict(self.done)}"

    def go_on(self, times):
        """Kill so many times, each at any moment within a second and a half."""
        deck = list[str]()
        for _ in range(times):
            time.sleep(self.dice.uniform(0.0, 1.5))
            deck = deck or self.dice.sample(VICTIMS, len(VICTIMS))
            self.kill("maker" if maker_of(self.node) and self.dice.random() < 0.6 else deck.pop())

    def go_on_while_rows_are_made(self, times):
        """Kill so many times, each at any moment while rows are being made; fewer if all are made before."""
        for _ in range(times):
            until_done(self.node, self.server.fake, lambda: maker_of(self.node) or self.is_done())
            if self.is_done():
                return
            time.sleep(self.dice.uniform(0.0, 0.5))
            self.kill(self.dice.choice(["maker", "maker", "daemon"]))

    def kill(self, victim):
        """Kill one of those that take part; the daemon where there is no such process just now."""
        ways = {"maker": self.end_maker, "runner": self.end_runner, "server": self.end_server}
        if victim == "daemon" or not ways[victim]():
            victim = "daemon"
            self.end_daemon()
        self.done[victim] += 1
        self.take_up()

    def end_daemon(self):
        """Kill the daemon, note which replies are gone with it, check that all others are stored, and start it."""
        self.node.kill()
        fake = self.server.fake
        with socket.create_connection(("127.0.0.1", fake.port)) as last_in_line:
            port = last_in_line.getsockname()[1]
            wait_for(lambda: port in fake.peers, "the server has taken all connections of the daemon")
        wait_for(lambda: not fake.connections, "the server has read all that the daemon has sent")
        kept, last = stored(self.node), {asked.key: asked for asked in fake.asked}
        self.lost |= {asked.number for asked in last.values() if self.asks(asked) and self.key(asked) not in kept}
        gone = [one.prompt for one in self.paid() if one.number not in self.lost and self.key(one) not in kept]
        assert not gone, f"{len(gone)} replies that had come are not stored ({self}): {gone[0]}"
        self.node.start()

    def end_runner(self):
        """Kill the runner that is at work; returns whether there is one."""
        jobs = self.node.api.get("/v1/jobs", limit=9).value["items"]
        return any(kill_worker(self.node.runner_record(job["id"])) for job in jobs)

    def end_server(self):
        """Cut all replies that are on their way, and be away for a moment."""
        self.server.kill()
        time.sleep(self.dice.uniform(0.0, 0.3))
        self.server.start()
        return True

    def end_maker(self):
        """Kill the process that makes rows; returns whether there is one."""
        with contextlib.suppress(ProcessLookupError):
            if (pid := maker_of(self.node)) is not None:
                os.kill(pid, signal.SIGKILL)
                wait_for(lambda: maker_of(self.node) != pid, f"process {pid} is dead")
                return True
        return False

    def take_up(self):
        """Resume recipes whose process was killed, as they say."""
        for name in self.recipes:
            recipe = shown(self.node, name)
            if recipe["state"] == "failed":
                assert self.done["maker"], (recipe["detail"], str(self))
                assert "was killed (signal 9" in recipe["detail"], (recipe["detail"], str(self))
                change(self.node, "resume", name)

    def is_done(self):
        """Whether every recipe is done; those that wait to be resumed are."""
        self.take_up()
        return are_done(self.node, self.recipes)

    def finish(self):
        """Wait until every recipe is done."""
        until_done(self.node, self.server.fake, self.is_done)

    def key(self, asked):
        """Where the reply to a request is kept."""
        return question_of(self.identities[asked.key.partition("-")[0]], asked).key("")

    def paid(self):
        """The requests that were answered whole."""
        return [asked for asked in self.server.fake.asked if asked.answered_at is not None and self.asks(asked)]

    def times_paid(self):
        """How often each question was paid for, and how often that was again, after a reply that was gone with a
        daemon. Fails if one was paid for again without that."""
        paid, again = Counter[str](), 0
        before = dict[str, int]()
        for asked in self.paid():
            key = self.key(asked)
            if key in before:
                assert before[key] in self.lost, f"a reply that had come is paid for again ({self}): {asked.prompt}"
                again += 1
            before[key] = asked.number
            paid[key] += 1
        return paid, again


def are_done(node, recipes):
    return all(shown(node, name)["state"] == "done" for name in recipes)


def until_done(node, fake, done):
    """Wait until all is done; every hundred questions there is time anew."""
    while not done():
        count = len(fake.asked) + 100
        node.until(lambda count=count: len(fake.asked) >= count or done(), "the recipes get on")


def question_of(identity, asked):
    """A request as the question that the daemon sent."""
    said = asked.document
    sampling = Sampling(
        max_tokens=said.get("max_tokens") or said["max_completion_tokens"],
        temperature=said["temperature"], top_p=said.get("top_p", 1.0), top_k=said.get("top_k", 0),
        presence=said.get("presence_penalty", 0.0), frequency=said.get("frequency_penalty", 0.0),
    )  # fmt: skip
    messages = tuple(Turn(role=turn["role"], content=turn["content"]) for turn in said["messages"])
    return SampleQuestion(identity, messages, sampling, tuple(said.get("stop", ())), said["seed"])


def stored(node):
    """The keys of the replies that are in the store of a dead daemon; read from a copy, as reading it would repair
    it."""
    with tempfile.TemporaryDirectory() as folder:
        for path in node.home.glob("store.sqlite*"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(path, folder)
        with contextlib.closing(sqlite3.connect(Path(folder) / "store.sqlite")) as store:
            return {key for (key,) in store.execute("SELECT key FROM verdict")}


def maker_of(node):
    """The pid of the process that makes rows; None if there is none."""
    daemon = str(node.daemon.pid).encode()
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = line.read_bytes().split(b"\0")
            if MAKER in words and daemon in words:
                return int(line.parent.name)
    return None
