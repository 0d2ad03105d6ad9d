"""lm-eval, unmodified and offline, against a real engine process: its numbers are our own, one by one.

It says nothing when a server leaves out a log-probability (related-systems.md, fact 3): it adds up the wrong ones. So
the comparison is made per sample, and servers that leave one out must fail it.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from waiting import LIMIT_S

from rwkv_weights.formats import synthetic

for package in ("lm_eval", "tenacity", "aiohttp", "requests"):
    pytest.importorskip(package, reason=f"needs {package}: not installed")
pytestmark = [pytest.mark.slow("oracles"), pytest.mark.timeout(900)]

KEY = "k" * 32
WINDOW = 40
TASKS = {
    "mc": "output_type: multiple_choice\ndoc_to_choice: '{{choices}}'\ndoc_to_target: gold\ntarget_delimiter: ''",
    "gen": (
        "output_type: generate_until\ndoc_to_target: '{{choices[gold]}}'\n"
        'generation_kwargs: {until: ["\\n", "99"], max_gen_toks: 8}\nmetric_list: [{metric: exact_match}]'
    ),
    "ppl": (
        "output_type: loglikelihood_rolling\ndoc_to_target: '{{q}}'\n"
        "metric_list: [{metric: bits_per_byte, aggregation: bits_per_byte, higher_is_better: false}]"
    ),
}
ROWS = [
    {"q": "12+34=", "choices": ["46", "47", "x"], "gold": 0},
    {"q": "7+8= ", "choices": ["15", " 15", "16\n\nand so on"], "gold": 0},
    {
        "q": "Which of these is the capital of France?\n\n",
        "choices": ["Paris", " London", "\u5317\u4eac", "é"],
        "gold": 0,
    },
    {"q": "a", "choices": ["a", "b"], "gold": 1},
    {"q": "def f(x):\n    return x +", "choices": [" 1", " x\n", "\n"], "gold": 0},
]
SCRIPT = """
import json, sys
from lm_eval import simple_evaluate
from lm_eval.tasks import TaskManager
folder, runs = sys.argv[1], json.loads(sys.argv[2])
manager = TaskManager(include_path=folder, include_defaults=False)
found = {}
for name, args in runs.items():
    result = simple_evaluate(model="local-completions", model_args=args, tasks=["mc", "gen", "ppl"],
                             task_manager=manager, log_samples=True, bootstrap_iters=0)
    found[name] = {task: [s["resps"] for s in sorted(samples, key=lambda s: s["doc_id"])]
                   for task, samples in result["samples"].items()}
json.dump(found, open(folder + "/found.json", "w"))
"""

Change = Callable[[dict[str, Any]], None]


class Mutant(ThreadingHTTPServer):
    """A proxy that forwards requests to an engine and changes the log-probabilities in the answers."""

    daemon_threads = True

    def __init__(self, root: str, change: Change) -> None:
        super().__init__(("127.0.0.1", 0), Relay)
        self.client = httpx.Client(base_url=root, timeout=LIMIT_S)
        self.change = change
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.client.close()


class Relay(BaseHTTPRequestHandler):
    server: Mutant

    def do_GET(self) -> None:
        self.relay("GET", b"")

    def do_POST(self) -> None:
        self.relay("POST", self.rfile.read(int(self.headers["content-length"])))

    def relay(self, method: str, body: bytes) -> None:
        answer = self.server.client.request(method, self.path, content=body, headers={"authorization": f"Bearer {KEY}"})
        value = answer.json()
        for choice in value.get("choices", ()):
            if choice["logprobs"]:
                self.server.change(choice["logprobs"])
        data = json.dumps(value).encode()
        self.send_response(answer.status_code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Suppress the log of requests."""


def without(place: int) -> Change:
    """Return a server that omits one entry of each list."""

    def change(logprobs: dict[str, Any]) -> None:
        for entries in logprobs.values():
            del entries[place]

    return change


def only_generated(logprobs: dict[str, Any]) -> None:
    """Return a server that gives the log-probabilities of generated tokens only."""
    for name, entries in logprobs.items():
        logprobs[name] = entries[-1:]


MUTANTS: dict[str, Change] = {"no last": without(-1), "no first": without(0), "only generated": only_generated}


class Lab:
    """Two engines (bytes and World), three mutants, and what lm-eval found with each."""

    def __init__(self, folder: Path, start: Callable[..., Any]) -> None:
        key_file = folder / "key"
        key_file.touch(0o600)
        key_file.write_text(KEY)
        world = synthetic.write(folder / "world.pth", synthetic.dims_of(2, 128))
        for name in ("b", "w"):
            (folder / name).mkdir()
        self.engines = {
            "bytes": start(folder / "b", "--api-key-file", str(key_file), "--name", "tiny"),
            "world": start(folder / "w", "--api-key-file", str(key_file), "--name", "tiny", model=str(world)),
        }
        self.mutants = {name: Mutant(self.engines["bytes"].root, change) for name, change in MUTANTS.items()}
        self.found = self.evaluate(folder)

    def evaluate(self, folder: Path) -> dict[str, Any]:
        rows = folder / "rows.jsonl"
        rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        for name, text in TASKS.items():
            head = f"task: {name}\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {rows}}}}}\n"
            empty = "''" if name == "ppl" else "'{{q}}'"
            (folder / f"{name}.yaml").write_text(f"{head}test_split: test\ndoc_to_text: {empty}\n{text}\n")
        runs = {name: args(engine.root, 4, 4096) for name, engine in self.engines.items()}
        runs["windows"] = args(self.engines["bytes"].root, 1, WINDOW)
        runs |= {name: args(mutant.root, 2, 4096) for name, mutant in self.mutants.items()}
        own = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "OPENAI_API_KEY": KEY}
        argv = [sys.executable, "-c", SCRIPT, str(folder), json.dumps(runs)]
        done = subprocess.run(
            argv, check=False, env=os.environ | own, capture_output=True, text=True, timeout=800, cwd=folder
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads((folder / "found.json").read_text())

    def close(self) -> None:
        for one in (*self.mutants.values(), *self.engines.values()):
            one.close()


def args(root: str, concurrent: int, max_length: int) -> str:
    shared = f"model=tiny,tokenizer_backend=remote,auth_token={KEY},max_retries=1"
    return f"{shared},base_url={root}/v1/completions,num_concurrent={concurrent},max_length={max_length}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, start_served: Callable[..., Any]) -> Iterator[Lab]:
    running = Lab(tmp_path_factory.mktemp("lm-eval"), start_served)
    yield running
    running.close()


# -- the same by our own routes


def ask(engine: Any, path: str, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answer = engine.client.post(path, content="\n".join(map(json.dumps, items)))
    assert answer.status_code == 200, answer.text
    found = sorted(map(json.loads, answer.text.splitlines()), key=lambda one: int(one["id"]))
    assert not any(one.get("error") for one in found), found
    return found


def own_choices(engine: Any) -> list[list[tuple[float, bool]]]:
    items = [
        {"id": str(i), "context": row["q"], "continuations": row["choices"], "split": "lm-eval"}
        for i, row in enumerate(ROWS)
    ]
    return [[(s["logprob"], s["greedy"]) for s in one["scores"]] for one in ask(engine, "/v1/score", items)]


def own_texts(engine: Any) -> list[str]:
    sampling, stops = {"max_tokens": 8}, {"suffixes": ["\n", "99"]}
    items = [{"id": str(i), "text": row["q"], "sampling": sampling, "stops": stops} for i, row in enumerate(ROWS)]
    return [one.get("text", "") for one in ask(engine, "/v1/generate", items)]


def own_rolling(engine: Any, window: int) -> list[float]:
    """By windows of that many bytes, as lm-eval cuts them: each sees a whole window's length before its last byte."""
    sums = []
    for row in ROWS:
        text, end = row["q"], 0
        items: list[dict[str, Any]] = []
        while end < len(text):
            start, end = end, min(len(text), end + window)
            context = {"context": text[end - window - 1 : start]} if start else {"context": ""}
            items.append({"id": str(len(items)), **context, "continuations": [text[start:end]]})
        sums.append(sum(one["scores"][0]["logprob"] for one in ask(engine, "/v1/score", items)))
    return sums


def close(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6


def same_choices(found: dict[str, Any], engine: Any) -> bool:
    """Whether every choice of every row has our log-probability, and agrees with us on being the likeliest."""
    theirs = [[tuple(one) for choice in row for one in choice] for row in found["mc"]]
    ours = own_choices(engine)
    pairs = [pair for a, b in zip(theirs, ours, strict=True) for pair in zip(a, b, strict=True)]
    return all(close(float(a[0]), b[0]) and (str(a[1]) == "True") == b[1] for a, b in pairs)


def same_rolling(found: dict[str, Any], engine: Any, window: int) -> bool:
    theirs = [float(row[0][0] if isinstance(row[0], list) else row[0]) for row in found["ppl"]]
    return all(close(a, b) for a, b in zip(theirs, own_rolling(engine, window), strict=True))


# -- the tests


@pytest.mark.parametrize("which", ["bytes", "world"])
def test_every_choice_has_our_own_numbers(lab: Lab, which: str) -> None:
    assert same_choices(lab.found[which], lab.engines[which])


@pytest.mark.parametrize("which", ["bytes", "world"])
def test_every_text_is_our_own(lab: Lab, which: str) -> None:
    assert [row[0][0] for row in lab.found[which]["gen"]] == own_texts(lab.engines[which])


@pytest.mark.parametrize("which", ["bytes", "world"])
def test_every_perplexity_is_our_own(lab: Lab, which: str) -> None:
    assert same_rolling(lab.found[which], lab.engines[which], 4096)


def test_windows_and_one_request_at_a_time(lab: Lab) -> None:
    found, engine = lab.found["windows"], lab.engines["bytes"]
    assert same_rolling(found, engine, WINDOW - 2)
    assert not same_rolling(found, engine, 4096), "a row is longer than a window"
    fitting = [i for i, row in enumerate(ROWS) if len(row["q"]) <= WINDOW - 1 - 8]
    texts = own_texts(engine)
    assert [found["gen"][i][0][0] for i in fitting] == [texts[i] for i in fitting]
    assert len(fitting) == len(ROWS) - 1, "the harness shortens the long one"


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_server_that_leaves_one_out_is_found(lab: Lab, mutant: str) -> None:
    found, engine = lab.found[mutant], lab.engines["bytes"]
    assert not same_choices(found, engine)
    assert not same_rolling(found, engine, 4096)
    assert [row[0][0] for row in found["gen"]] == own_texts(engine), "it leaves texts alone"
