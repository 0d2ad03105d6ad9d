"""A whole judged job with known secrets: afterwards none of them stands anywhere that it should not."""

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_judge
import pytest
from waiting import LIMIT_S

from rwkvctl.protocol.errors import Exit
from rwkvctl.protocol.requests import EventsRequest
from rwkvctl.protocol.routes import ROUTES

JUDGED = """
from dataclasses import replace

from rwkv_data.benchmark import by_name
from rwkv_data.benchmarks.demo_arith import BENCHMARK as SUMS
from rwkv_data.graders.judged import judged
from rwkv_data.graders.text import EXACT
from rwkv_data.judges import rule

GRADER = judged(EXACT, rule("rwkv-skills-v1"))
KIND = replace(SUMS.default_kind, name="free_response_judge", grader=GRADER)
BENCHMARK = replace(SUMS, name="judged_sums", kinds=by_name([KIND]))
"""
CONFIG = """
tokens_file = "{folder}/tokens"

[judge]
model = "fake-judge-1"
[[judge.endpoints]]
base_url = "{url}"
keys_file = "credential:judge.keys"

[[notify]]
url = "{url}/hook"
secret_file = "{folder}/webhook.secret"
"""
SECRETS = {
    "judge key": "jk-" + "3f" * 16,
    "second judge key": "jk-" + "9c" * 16,
    "hub token": "hf_" + "Qz" * 16,
    "variable of rwkv-skills": "sk-" + "w7" * 16,
    "token": "tk-" + "5e" * 16,
    "webhook secret": "wh-" + "b1" * 16,
}


@pytest.fixture
def judge() -> Iterator[Any]:
    with fake_judge.in_thread(fake_judge.FakeJudge()) as fake:
        yield fake


def private(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.fixture
def loaded(new_node: Any, judge: Any, tmp_path: Path) -> Any:
    """A node that knows every secret, not started yet."""
    folder = tmp_path / "secrets"
    private(folder / "credentials" / "judge.keys", f"{SECRETS['judge key']}\n{SECRETS['second judge key']}\n")
    private(folder / "tokens", f"viewer dashboard {SECRETS['token']}\n")
    private(folder / "webhook.secret", SECRETS["webhook secret"])
    own = tmp_path / "config" / "rwkvctl"
    (own / "benchmarks").mkdir(parents=True)
    (own / "benchmarks" / "judged_sums.py").write_text(JUDGED)
    (own / "config.toml").write_text(CONFIG.format(folder=folder, url=judge.url))
    node = new_node()
    node.settings |= {
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "CREDENTIALS_DIRECTORY": str(folder / "credentials"),
        "HF_TOKEN": SECRETS["hub token"],
        "OPENAI_API_KEY": SECRETS["variable of rwkv-skills"],
    }
    return node


def found_in(place: str, data: bytes) -> list[str]:
    return [f"{name} in {place}" for name, secret in SECRETS.items() if secret.encode() in data]


def in_processes(node: Any, workers: set[bytes]) -> list[str]:
    """Secrets on command lines of any process, and in the environment of workers; the node's own are noted.

    A child that has the daemon's own command line is forked and about to become a worker: it is the daemon yet. Daemons
    of other tests, which may run beside this one with the same secrets, have them in their environment by right.
    """
    found = []
    daemon = Path(f"/proc/{node.daemon.pid}/cmdline").read_bytes()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words, environ = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue
        found += found_in(f"the command line of {words!r}", words)
        is_daemon = words == daemon or words.endswith(b"\0-m\0rwkv_daemon\0")
        if not is_daemon and (b"RWKVCTL_ATTEMPT=" in environ or b"rwkv_" in words):
            workers |= {words} if os.fsencode(node.home) in words else set()
            found += found_in(f"the environment of {words!r}", environ)
    return found


def forks(node: Any) -> list[str]:
    """Children of the daemon that have its command line."""
    daemon = Path(f"/proc/{node.daemon.pid}/cmdline").read_bytes()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == node.daemon.pid and (process / "cmdline").read_bytes() == daemon:
                found.append(process.name)
    return found


def in_files(folder: Path) -> list[str]:
    every = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [hit for path in every for hit in found_in(str(path), path.read_bytes())]


def in_store(path: Path) -> list[str]:
    with sqlite3.connect(path) as store:
        return [hit for line in store.iterdump() for hit in found_in(f"the store: {line[:80]}", line.encode())]


def in_replies(node: Any, job: str) -> list[str]:
    """Secrets in every reply to a question without a body, and in what the command line shows."""
    found = []
    for request, (method, route) in ROUTES.items():
        if method == "GET" and request is not EventsRequest:
            place = route.replace("{job}", job).replace("{target}", "daemon")
            if "{" not in place and "/search" not in place:
                found += found_in(place, b"".join(said(node, place)))
    found += found_in("events", b"".join(node.api.stream("/v1/events", LIMIT_S, since=0, follow=False)))
    for words in (["config", "show"], ["judge"], ["audit"], ["doctor"], ["status", "--json"], ["logs", job]):
        done = node.cli(*words, check=False)
        found += found_in(" ".join(words), (done.stdout + done.stderr).encode())
    return found


def said(node: Any, place: str) -> Iterator[bytes]:
    """The body of a reply, be it one document, lines or a text."""
    with contextlib.closing(node.api._open("GET", place, b"", LIMIT_S)) as exchange:
        yield str(exchange.head()).encode()
        yield from exchange.body()


def test_secrets_stand_nowhere(loaded: Any, judge: Any, tools: Any) -> None:
    rude = iter(range(3))

    def behave(asked: Any) -> Any:
        """A judge that repeats the key in an error, as some proxies do, and then works."""
        if next(rude, None) is not None:
            return fake_judge.Do(f"the key {asked.key} is over its limit", status=500)
        return fake_judge.Do("True")

    judge.behave = behave
    wrong = {"=": "no sum"}
    loaded.engines_do(answers=4, texts=wrong)
    loaded.start()
    (name,) = loaded.dispatch(only_datasets=["judged_sums"], only_jobs=["free_response_judge"], limit=8)
    found: list[str] = []
    workers: set[bytes] = set()

    def both_seen() -> bool:
        found.extend(in_processes(loaded, workers))
        return {b"rwkv_engine", b"rwkv_daemon.runner"} <= {word for words in workers for word in words.split(b"\0")}

    tools.wait_for(both_seen, "engine and runner have been looked at", loaded.log)
    loaded.engines_do(texts=wrong)
    while loaded.job(name)["state"] not in {"done", "failed"}:
        found += in_processes(loaded, workers)
    assert loaded.wait_for_state(name, "done")["score"]["n"] == 8
    assert {asked.key.removeprefix("Bearer ") for asked in judge.asked} & set(SECRETS.values()), "the keys were used"
    tools.wait_for(lambda: not forks(loaded), "no fork of the daemon stays what it is", loaded.log)
    found += in_replies(loaded, name)
    assert loaded.terminate() == 0
    found += in_files(loaded.home) + in_store(loaded.home / "store.sqlite")
    found += found_in("the daemon's log", (loaded.home.parent / "daemon.log").read_bytes())
    assert not found


@pytest.mark.parametrize(
    ("what", "says"),
    [("judge.keys", "the judge's keys in {path} can be read or written by everybody; run `chmod 600 {path}`.")],
)
def test_a_file_of_secrets_that_everybody_can_read_is_refused(
    loaded: Any, tmp_path: Path, what: str, says: str
) -> None:
    path = tmp_path / "secrets" / "credentials" / what
    path.chmod(0o644)
    daemon = loaded.refused_start()
    assert (daemon.returncode, says.format(path=path) in daemon.stderr) == (Exit.USAGE, True), daemon.stderr


def test_a_secret_cannot_be_written_down_by_accident() -> None:
    import copy
    import pickle

    from rwkvctl.settings.secret import Secret

    secret = Secret(SECRETS["judge key"])
    for text in (str(secret), repr(secret), f"{secret}", f"{secret!r:>50}", f"{[secret]}"):
        assert SECRETS["judge key"] not in text
    with pytest.raises(TypeError):
        json.dumps(secret)
    with pytest.raises(TypeError, match="not written down"):
        pickle.dumps(secret)
    assert copy.deepcopy({"key": secret})["key"] is secret
