"""evalplus as a harness of a node: the verdict on each reply that a model can give, whatever its program does.

The harness is installed as an operator does it, with the manifest that is shipped; only its rows come from here.
"""

import gzip
import hashlib
import json
import re
import socket
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from harness_node import HarnessNode, build
from live_node import STUB

from rwkv_daemon.harness.manifest import SHIPPED
from rwkv_data.sandbox import available

pytestmark = [pytest.mark.slow("oracles"), pytest.mark.timeout(900)]

FETCH = """
import os, shutil, sys
folder = os.environ["XDG_CACHE_HOME"] + "/evalplus"
os.makedirs(folder)
shutil.copy(sys.prefix + "/rows.jsonl", folder + "/HumanEvalPlus-v0.1.10.jsonl")
from evalplus.data import get_human_eval_plus, get_human_eval_plus_hash
from evalplus.evaluate import get_groundtruth
get_groundtruth(get_human_eval_plus(), get_human_eval_plus_hash(), [])
"""
"""What the shipped manifest does, but for the rows of a file in the installation."""
REFUSED = 1
"""Tokens for which the engine refuses a request."""
ENGINE = f"""
import importlib.util, json, sys

at = importlib.util.spec_from_file_location("stub", {str(STUB / "rwkv_engine" / "__main__.py")!r})
stub = importlib.util.module_from_spec(at)
at.loader.exec_module(stub)

class Chatting(stub.Connection):
    def post(self):
        if self.path != "/v1/chat/completions":
            return super().post()
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if asked["max_tokens"] == {REFUSED}:
            return self.reply({{"error": {{"message": "too few tokens", "type": "invalid_request_error"}}}}, 400)
        prompt = "\\n".join(message["content"] for message in asked["messages"])
        self.complete(json.dumps(asked | {{"prompt": prompt}}).encode())

    def reply(self, value, *more):
        for choice in value.get("choices", ()):
            choice["message"] = {{"role": "assistant", "content": choice.pop("text")}}
        super().reply(value, *more)

stub.Connection = Chatting
sys.exit(stub.main())
"""
"""The stub engine with the route of chats. The prompt is the text of all messages."""
MAX_TOKENS = 768
"""Of the shipped manifest; a token of the stub engine is a byte."""

SPINS = """\
import signal
def prime_fib(n):
    signal.setitimer(signal.ITIMER_REAL, 0)
    while True: pass
    return n
"""
"""One that takes evalplus's alarm for each test away, so that it is ended with the time of all tests."""
WAITS = """\
def is_multiply_prime(a):
    while a == 8: pass
    return a == 30
"""
CONNECTS = """\
import errno, socket
def trouble(*address):
    try: socket.create_connection(address, 5).close()
    except OSError as error: return error.errno
    return 0
def fib(n):
    if trouble("127.0.0.1", %d) != errno.ECONNREFUSED: return None
    if trouble("192.0.2.1", 80) != errno.ENETUNREACH: return None
"""
"""A solution where neither the node's loopback nor a strange network can be reached."""
OVERWRITES = """\
import errno, os
folder = os.environ["XDG_CACHE_HOME"] + "/evalplus/"
def trouble(path):
    try: os.write(os.open(path, os.O_WRONLY | os.O_CREAT), b"x")
    except OSError as error: return error.errno
    return 0
def fibfib(n):
    found = [one for one in os.listdir(folder) if one.endswith((".jsonl", ".pkl"))]
    if len(found) != 2 or "OPENAI_API_KEY" in os.environ: return None
    if {trouble(folder + one) for one in [*found, "new"]} != {errno.EROFS}: return None
    if trouble(os.environ["RWKVCTL_OUT"] + "/x") != errno.EFBIG: return None
"""
"""A solution where no file can be written, neither the rows nor what is expected of them can be changed, and the token
is not known."""


class Case(NamedTuple):
    """A reply to a problem, the program that is taken of it, which tests that passes, and what is said of it."""

    reply: str
    solution: str
    base: bool
    plus: bool
    detail: str = ""


def fenced(program: str) -> str:
    return f"Here is a solution:\n\n```python\n{program.strip()}\n```\n"


def taken(program: str, *, base: bool, plus: bool, detail: str = "") -> Case:
    """A program in a block."""
    return Case(fenced(program), program.strip(), base, plus, detail)


def cases(rows: dict[str, dict[str, Any]], port: int) -> dict[str, Case]:
    """The reply to each problem, in their order. `port` is one of the node's loopback."""
    known = {name: row["canonical_solution"].rstrip() for name, row in rows.items()}  # without its `def`
    solved = f"def f(n):{known['HumanEval/106']}"
    bare = f"def starts_one_ends(n):{known['HumanEval/83']}"
    cut_off = (fenced(solved) + "It computes each number from the one before the last. " * 20)[:MAX_TOKENS]
    return {
        "HumanEval/5": taken(f"def intersperse(numbers, delimeter):{known['HumanEval/5']}", base=True, plus=True),
        "HumanEval/6": taken(
            "def parse_nested_parens(text):\n    return [2, 3, 1, 3]", base=False, plus=False,
            detail="base tests: fail with ['() (()) ((())) (((())))']; plus tests: fail with ['']",
        ),
        "HumanEval/15": Case(
            "I am sorry, but I cannot do this.", "I am sorry, but I cannot do this.", False, False,
            "base tests: fail; plus tests: fail",
        ),
        "HumanEval/39": taken(SPINS, base=False, plus=False, detail="base tests: timeout; plus tests: timeout"),
        "HumanEval/41": taken(
            "def car_race_collision(n):\n    return {2: 4, 3: 9, 4: 16, 8: 64, 10: 100}.get(n)", base=True, plus=False,
            detail="plus tests: fail with [5]",
        ),
        "HumanEval/55": taken(CONNECTS % port + known["HumanEval/55"], base=True, plus=True),
        "HumanEval/63": taken(OVERWRITES + known["HumanEval/63"], base=True, plus=True),
        "HumanEval/75": taken(
            WAITS, base=False, plus=False, detail="base tests: fail with [8]; plus tests: fail with [99]"
        ),
        "HumanEval/83": Case(bare, bare, True, True),
        "HumanEval/106": Case(cut_off, solved, True, True),
    }  # fmt: skip


def problems(real_rows: Path) -> dict[str, dict[str, Any]]:
    """Every row of HumanEval+ by its name, or a skip."""
    file = real_rows / "human_eval_plus" / "HumanEvalPlus.jsonl.gz"
    if not file.is_file():
        pytest.skip(f"needs the rows of HumanEval+: no {file}")
    with gzip.open(file, "rt") as lines:
        return {row["task_id"]: row for row in map(json.loads, lines)}


def write_manifest(folder: Path) -> None:
    """The shipped manifest with another `fetch`, and its lock."""
    folder.mkdir(parents=True)
    shipped = (SHIPPED / "evalplus.toml").read_text()
    words = f"fetch = {json.dumps(['{python}', '-P', '-c', FETCH])}\n"
    text, found = re.subn(r'^fetch = \[.*?^""", [^\n]*\]\n', lambda _: words, shipped, flags=re.MULTILINE | re.DOTALL)
    assert found == 1
    ours, theirs = tomllib.loads(text), tomllib.loads(shipped)
    assert ours.pop("fetch") != theirs.pop("fetch")
    assert ours == theirs
    (folder / "evalplus.toml").write_text(text)
    (folder / theirs["lock"]).write_bytes((SHIPPED / theirs["lock"]).read_bytes())


def write_engine(folder: Path) -> Path:
    """A folder for PYTHONPATH whose engine is `ENGINE`."""
    package = folder / "rwkv_engine"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(ENGINE)
    return folder


def fetched(node: Any) -> dict[str, str]:
    """The files that runs read, each by its path with its hash."""
    [folder] = (path for path in node.home.glob("harnesses/evalplus/*/fetched/*") if path.is_dir())
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.md5(path.read_bytes()).hexdigest() for path in files}


def each_program_has_its_verdict(samples: list[dict[str, Any]], known: dict[str, Case]) -> None:
    samples = sorted(samples, key=lambda sample: sample["row"])
    assert [sample["stages"][0]["prompt"] for sample in samples] == list(known)
    for sample, (name, case) in zip(samples, known.items(), strict=True):
        assert sample["stages"][0]["completion"] == case.reply, name
        assert sample["extracted"] == case.solution, name
        said = sample["parts"], sample["value"], sample.get("detail", "")
        assert said == ({"base": float(case.base)}, float(case.plus), case.detail), name


def scores_count_them(score: dict[str, Any], known: dict[str, Case], rows_md5: str) -> None:
    assert (score["benchmark"], score["kind"]) == ("evalplus:humaneval", "harness.evalplus@0.3.1")
    assert (score["n"], score["scored"], score["primary"]) == (len(known), len(known), "pass@1,plus")
    assert {name: metric["value"] for name, metric in score["metrics"].items()} == {
        "pass@1,plus": 0.5, "pass@1,base": 0.6,
    }  # fmt: skip
    task = score["provenance"]["task"]
    assert (task["version"], task["requests"], task["refused"]) == (rows_md5[:12], len(known), 0)
    assert score["warnings"] == ["the token limit cut off 1 completion: raise max_tokens"]


def test_evalplus_as_a_harness_judges_each_program_and_none_reaches_the_network_or_its_rows(
    new_node: Any, real_rows: Path, tmp_path: Path
) -> None:
    if trouble := available():
        pytest.skip(f"needs namespaces: {trouble}")
    every = problems(real_rows)
    one = HarnessNode(new_node())
    node = one.live
    node.settings["PYTHONPATH"] = str(write_engine(tmp_path / "engine"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        known = cases(every, listener.getsockname()[1])
        assert max(len(case.reply) for case in known.values()) == MAX_TOKENS
        write_manifest(one.harnesses)
        node.start()
        build(node, "evalplus")
        [venv] = node.home.glob("harnesses/evalplus/*/venv")
        rows = "".join(json.dumps(every[name]) + "\n" for name in known)
        (venv / "rows.jsonl").write_text(rows)
        assert node.cli("harness", "tasks", "evalplus").stdout.split() == ["task", "humaneval", "mbpp"]
        node.engines_do(texts={f"def {every[name]['entry_point']}(": case.reply for name, case in known.items()})
        [ended] = one.ended("humaneval", name="evalplus")
        assert ended["state"] == "done", one.log_of(ended["id"])[-4000:]
        with pytest.raises(BlockingIOError):
            listener.accept()
        [refused] = one.ended("humaneval", name="evalplus", settings={"max_tokens": str(REFUSED)})
        assert refused["state"] == "failed"
        assert "its last words: the model refuses a request: Error code: 400" in refused["detail"]
    rows_md5, found = hashlib.md5(rows.encode()).hexdigest(), fetched(node)
    assert found.keys() == {"evalplus/HumanEvalPlus-v0.1.10.jsonl", f"evalplus/{rows_md5}.pkl"}
    assert found["evalplus/HumanEvalPlus-v0.1.10.jsonl"] == rows_md5
    each_program_has_its_verdict(node.samples(ended["id"]), known)
    scores_count_them(ended["score"], known, rows_md5)
