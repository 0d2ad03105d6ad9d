"""evalplus as a harness of a node: the verdict on each reply that a model can give, whatever its program does.

The harness is installed as an operator does it, with the manifest that is shipped; only its rows come from here.
"""

import gzip
import hashlib
import json
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

FILES = {"humaneval": "HumanEvalPlus-v0.1.10.jsonl", "mbpp": "MbppPlus-v0.2.0.jsonl"}
"""Where evalplus keeps the rows of a dataset."""
PUT_ROWS = f"""\
import os, shutil, sys
folder = os.environ["XDG_CACHE_HOME"] + "/evalplus/"
os.makedirs(folder)
shutil.copy(sys.prefix + "/rows-" + sys.argv[1], folder + {FILES!r}[sys.argv[1]])
"""
"""Puts rows that lie in the installation where the shipped `fetch` finds them, instead of fetching them."""
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


def mbpp_cases(rows: dict[str, dict[str, Any]]) -> dict[str, Case]:
    """The reply to each problem of MBPP."""
    right = rows["Mbpp/394"]["canonical_solution"]
    fits = "def check_monthnumb_number(month):\n    return month == 5"
    wrong = "def catalan_number(num):\n    return 0"
    return {
        "Mbpp/394": taken(right, base=True, plus=True),
        "Mbpp/455": taken(fits, base=True, plus=False, detail="plus tests: fail with [1]"),
        "Mbpp/583": taken(
            wrong, base=False, plus=False, detail="base tests: fail with [10]; plus tests: fail with [0]"
        ),
    }


def problems(real_rows: Path, name: str) -> dict[str, dict[str, Any]]:
    """Every row of a dataset by its name, or a skip."""
    file = real_rows / name
    if not file.is_file():
        pytest.skip(f"needs the rows of evalplus: no {file}")
    with gzip.open(file, "rt") as lines:
        return {row["task_id"]: row for row in map(json.loads, lines)}


def write_manifest(folder: Path) -> None:
    """The shipped manifest with its lock; before its `fetch` the rows are put where that looks for them."""
    folder.mkdir(parents=True)
    shipped = (SHIPPED / "evalplus.toml").read_text()
    begun = 'fetch = ["{python}", "-P", "-c", """\n'
    assert shipped.count(begun) == 1
    (folder / "evalplus.toml").write_text(shipped.replace(begun, begun + PUT_ROWS))
    lock = tomllib.loads(shipped)["lock"]
    (folder / lock).write_bytes((SHIPPED / lock).read_bytes())


def write_engine(folder: Path) -> Path:
    """A folder for PYTHONPATH whose engine is `ENGINE`."""
    package = folder / "rwkv_engine"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(ENGINE)
    return folder


def fetched(node: Any) -> dict[str, str]:
    """The files that runs read, each by its name with its hash."""
    files = [path for path in node.home.glob("harnesses/evalplus/*/fetched/*/evalplus/*") if path.is_file()]
    return {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in files}


def put_rows(node: Any, dataset: str, rows: list[dict[str, Any]]) -> str:
    """Put rows into the installation; returns their hash."""
    [venv] = node.home.glob("harnesses/evalplus/*/venv")
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (venv / f"rows-{dataset}").write_text(text)
    return hashlib.md5(text.encode()).hexdigest()


def each_program_has_its_verdict(samples: list[dict[str, Any]], known: dict[str, Case]) -> None:
    samples = sorted(samples, key=lambda sample: sample["row"])
    assert [sample["stages"][0]["prompt"] for sample in samples] == list(known)
    for sample, (name, case) in zip(samples, known.items(), strict=True):
        assert sample["stages"][0]["completion"] == case.reply, name
        assert sample["extracted"] == case.solution, name
        said = sample["parts"], sample["value"], sample.get("detail", "")
        assert said == ({"base": float(case.base)}, float(case.plus), case.detail), name
        assert sample["stages"][0]["stop"] == ("length" if len(case.reply) == MAX_TOKENS else "stop_suffix"), name


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
    every = problems(real_rows, "human_eval_plus/HumanEvalPlus.jsonl.gz")
    small = problems(real_rows, "mbpp_plus/MbppPlus.jsonl.gz")
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
        rows_md5 = put_rows(node, "humaneval", [every[name] for name in known])
        assert node.cli("harness", "tasks", "evalplus").stdout.split() == ["task", "humaneval", "mbpp"]
        node.engines_do(texts={f"def {every[name]['entry_point']}(": case.reply for name, case in known.items()})
        [ended] = one.ended("humaneval", name="evalplus")
        assert ended["state"] == "done", one.log_of(ended["id"])[-4000:]
        with pytest.raises(BlockingIOError):
            listener.accept()
        [refused] = one.ended("humaneval", name="evalplus", settings={"max_tokens": str(REFUSED)})
        assert refused["state"] == "failed"
        assert "its last words: the model refuses a request: Error code: 400" in refused["detail"]
    found = fetched(node)
    assert found.keys() == {FILES["humaneval"], f"{rows_md5}.pkl"}
    assert found[FILES["humaneval"]] == rows_md5
    each_program_has_its_verdict(node.samples(ended["id"]), known)
    scores_count_them(ended["score"], known, rows_md5)
    mbpp = mbpp_cases(small)
    put_rows(node, "mbpp", [small[name] for name in mbpp])
    node.engines_do(texts={f"{small[name]['entry_point']}(": case.reply for name, case in mbpp.items()})
    [ended] = one.ended("mbpp", name="evalplus")
    assert ended["state"] == "done", one.log_of(ended["id"])[-4000:]
    each_program_has_its_verdict(node.samples(ended["id"]), mbpp)
    assert {name: metric["value"] for name, metric in ended["score"]["metrics"].items()} == {
        "pass@1,plus": 1 / 3, "pass@1,base": 2 / 3,
    }  # fmt: skip
