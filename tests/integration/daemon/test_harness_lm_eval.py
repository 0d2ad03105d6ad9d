"""lm_eval as a harness of a node, against our own kinds of the profile lm-eval: the same rows, checkpoint and engine
must give the same prompts, log-probabilities, answers, verdicts and scores, whoever asks.

The harness is installed as an operator does it. Its tasks are lm_eval's own, on rows that are here.
"""

import contextlib
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pytest
from harness_node import build
from waiting import LIMIT_S

from rwkv_data.definition import registry
from rwkv_data.definition.stage import Row
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.row_shapes import choice_hellaswag
from rwkv_data.sandbox import available

pytestmark = [pytest.mark.slow("oracles"), pytest.mark.timeout(900), pytest.mark.real_engine]

LIMIT = 24
SHOTS = 3
SUBJECTS = ("abstract_algebra", "anatomy")
"""The first two of MMLU, so that our job on them is a `limit`."""
FIRST_SUBJECT = 100
"""Rows of the first subject."""
TASK = """\
include: {stock}
task: {name}
dataset_path: json
dataset_name: null
dataset_kwargs: {{data_files: {files}}}
training_split: {train}
fewshot_split: {train}
validation_split: null
test_split: test
"""
GROUP = """\
group: mmlu_here
task: [{tasks}]
aggregate_metric_list: [{{metric: acc, weight_by_size: true}}]
"""
SITE = re.compile(r"/\S*/site-packages/")


class Pair(NamedTuple):
    """One task as the harness measures it, and as we do; and the metrics by our name and by the harness's."""

    task: str
    benchmark: str
    kind: str
    settings: dict[str, str]
    own_settings: dict[str, str]
    metrics: dict[str, str]


CHOICE = "multi_choice_plain.lm-eval"
NORMED = {"accuracy": "acc", "acc_norm": "acc_norm"}
PAIRS = (
    Pair("arc_challenge_here", "arc_challenge", CHOICE, {"num_fewshot": f"{SHOTS}"}, {"shots": f"{SHOTS}"}, NORMED),
    Pair("hellaswag_here", "hellaswag", CHOICE, {}, {}, NORMED),
    Pair("mmlu_here", "mmlu", CHOICE, {}, {}, {"accuracy": "acc"}),
    Pair(
        "gsm8k_here", "gsm8k", "free_response.lm-eval", {}, {},
        {"accuracy": "exact_match,strict-match", "flexible": "exact_match,flexible-extract"},
    ),
)  # fmt: skip
CHOICES = tuple(pair.task for pair in PAIRS if pair.kind == CHOICE)


@dataclass
class Watch:
    """What is seen of the harness's processes while jobs run: their command lines and tokens, the folders of packages
    that they have files open of; and the command lines of all processes of the machine."""

    home: Path
    harness: set[bytes] = field(default_factory=set)
    tokens: set[bytes] = field(default_factory=set)
    packages: set[str] = field(default_factory=set)
    lines: set[bytes] = field(default_factory=set)
    over: threading.Event = field(default_factory=threading.Event)

    def look(self) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes()
                self.lines.add(words)
                environment = dict(
                    variable.split(b"=", 1)
                    for variable in (process / "environ").read_bytes().split(b"\0")
                    if b"=" in variable
                )
                if os.fsencode(self.home) in environment.get(b"RWKVCTL_OUT", b""):
                    self.harness.add(words)
                    self.tokens.add(environment[b"OPENAI_API_KEY"])
                    self.packages |= set(SITE.findall((process / "maps").read_text()))

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        def again() -> None:
            while not self.over.wait(0.2):
                self.look()

        thread = threading.Thread(target=again)
        thread.start()
        try:
            yield
        finally:
            self.over.set()
            thread.join()


@dataclass
class Measured:
    """A node on which every task was measured both ways: task -> (the harness's job, ours)."""

    node: Any
    watch: Watch
    before: dict[str, Any]
    """The harness as it was listed between the writing of its own tasks and their reading in."""
    jobs: dict[str, tuple[str, str]]

    @property
    def installed(self) -> Path:
        [found] = self.node.home.glob("harnesses/lm-eval/*/tasks.json")
        return Path(found).parent

    def samples(self, task: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """(the harness's sample, ours) of the rows that both asked, in order."""
        theirs, ours = ({sample["row"]: sample for sample in self.node.samples(job)} for job in self.jobs[task])
        if task == "mmlu_here":  # a group asks the first rows of each of its parts
            assert list(theirs) == list(range(2 * LIMIT))
            places = [*range(LIMIT), *range(FIRST_SUBJECT, FIRST_SUBJECT + LIMIT)]
            return [(theirs[row], ours[place]) for row, place in enumerate(places)]
        assert list(theirs) == list(ours) == list(range(LIMIT))
        return [(theirs[row], ours[row]) for row in range(LIMIT)]


def listed(node: Any) -> dict[str, Any]:
    """lm-eval as `rwkvctl harness` shows it."""
    [found] = [one for one in json.loads(node.cli("harness", "-o", "json").stdout)["items"] if one["name"] == "lm-eval"]
    return dict(found)


def arc_document(row: Row) -> dict[str, Any]:
    labels = [str(number) for number in range(1, len(row["choices"]) + 1)]
    key = labels["ABCDE".index(row["answer"])]
    return {"question": row["question"], "choices": {"text": row["choices"], "label": labels}, "answerKey": key}


def hellaswag_document(raw: Row) -> dict[str, Any]:
    first, second = choice_hellaswag.halves(raw)
    kept = {name: raw[name] for name in ("activity_label", "endings")}
    return {**kept, "ctx_a": first, "ctx_b": second, "label": str(raw["label"])}


def mmlu_document(row: Row) -> dict[str, Any]:
    return {"question": row["question"], "choices": row["choices"], "answer": "ABCD".index(row["answer"])}


def documents(node: Any, real_rows: Path) -> dict[str, tuple[str, list[Row], list[Row]]]:
    """Task -> (lm_eval's file, the rows as upstream has them, and the examples)."""
    found: dict[str, tuple[str, list[Row], list[Row]]] = {}
    benchmark, data = registry.load("arc_challenge"), node.home / "data"
    sets = prepared_sets.load_rows(data, benchmark), prepared_sets.load_pool(data, benchmark)
    rows, pool = ([arc_document(row) for row in one] for one in sets)
    found["arc_challenge_here"] = ("arc/arc_challenge.yaml", rows, pool)
    lines = (real_rows / "hellaswag" / "hellaswag_val_500_en.jsonl").read_text().splitlines()
    found["hellaswag_here"] = ("hellaswag/hellaswag.yaml", [hellaswag_document(json.loads(line)) for line in lines], [])
    mmlu = prepared_sets.load_rows(data, registry.load("mmlu"))
    assert [row["subject"] for row in mmlu[FIRST_SUBJECT - 1 : FIRST_SUBJECT + 1]] == list(SUBJECTS)
    for subject in SUBJECTS:
        rows = [mmlu_document(row) for row in mmlu if row["subject"] == subject]
        found[f"mmlu_{subject}_here"] = (f"mmlu/default/mmlu_{subject}.yaml", rows, [])
    splits = [(real_rows / "gsm8k" / f"{split}.jsonl").read_text().splitlines() for split in ("test", "train")]
    rows, pool = ([json.loads(line) for line in one] for one in splits)
    found["gsm8k_here"] = ("gsm8k/gsm8k.yaml", rows, pool)
    return found


def write_tasks(folder: Path, stock: Path, every: dict[str, tuple[str, list[Row], list[Row]]]) -> None:
    """Own tasks: lm_eval's, under other names and on these rows."""
    folder.mkdir(parents=True)
    for name, (file, rows, pool) in every.items():
        files = {}
        for split, documents_of in (("test", rows), ("train", pool)):
            if documents_of:
                files[split] = str(folder / f"{name}_{split}.jsonl")
                Path(files[split]).write_text("".join(json.dumps(one) + "\n" for one in documents_of))
        train = "train" if pool else "null"
        text = TASK.format(stock=stock / file, name=name, files=json.dumps(files), train=train)
        (folder / f"{name}.yaml").write_text(text)
    (folder / "mmlu_here.yaml").write_text(GROUP.format(tasks=", ".join(f"mmlu_{one}_here" for one in SUBJECTS)))


@pytest.fixture(scope="module")
def measured(module_node: Any, real_rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    if trouble := available():
        pytest.skip(f"needs namespaces: {trouble}")
    config = tmp_path_factory.mktemp("config")
    node = module_node()
    node.settings["XDG_CONFIG_HOME"] = str(config)
    node.start()
    assert listed(node)["state"] == "not built"
    build(node, "lm-eval")
    for name in dict.fromkeys(pair.benchmark for pair in PAIRS):
        node.cli("data", "prepare", name, "--from", str(real_rows / name))
    [stock] = node.home.glob("harnesses/lm-eval/*/venv/lib/python3*/site-packages/lm_eval/tasks")
    write_tasks(config / "rwkvctl" / "harnesses" / "lm-eval", stock, documents(node, real_rows))
    before = listed(node)
    build(node, "lm-eval")
    watch, jobs = Watch(node.home), {}
    with watch.looking():
        for pair in PAIRS:
            [theirs] = node.dispatch(harness="lm-eval", only_datasets=[pair.task], limit=LIMIT, settings=pair.settings)
            limit = FIRST_SUBJECT + LIMIT if pair.task == "mmlu_here" else LIMIT
            [ours] = node.dispatch(
                only_datasets=[pair.benchmark], only_jobs=[pair.kind], limit=limit, settings=pair.own_settings
            )
            jobs[pair.task] = theirs, ours
            for name in jobs[pair.task]:  # one harness at a time: each imports for half a minute
                assert ended(node, name) == "done", log_of(node, name)[-4000:]
    return Measured(node, watch, before, jobs)


def ended(node: Any, job: str) -> str:
    """The state in which a job has ended. A harness may take longer until then than tests wait elsewhere."""
    deadline = time.monotonic() + 4 * LIMIT_S
    while (state := node.job(job)["state"]) not in {"done", "failed"}:
        if time.monotonic() > deadline:
            pytest.fail(f"{job} is {state}\n{log_of(node, job)[-4000:]}\n{node.log()}")
        time.sleep(0.5)
    return str(state)


def log_of(node: Any, job: str) -> str:
    return "".join(path.read_text(errors="replace") for path in (node.home / "runs" / job).glob("log-*.txt"))


def own_tasks_count_once_they_are_read_in(measured: Measured) -> None:
    assert measured.before["state"] == "ready"
    assert measured.before["outdated"]
    now = listed(measured.node)
    assert (now["state"], now["version"], now.get("outdated", False)) == ("ready", "0.4.13", False)
    assert now["tasks"] > 10_000
    assert now["tasks"] == measured.before["tasks"] + len({pair.task for pair in PAIRS}) + len(SUBJECTS)
    here = measured.node.cli("harness", "tasks", "lm-eval", "_here").stdout
    assert {pair.task for pair in PAIRS} <= set(here.split())


def lm_eval_is_the_installed_one_and_not_ours(measured: Measured) -> None:
    venv = measured.installed / "venv"
    [site] = venv.glob("lib/python3*/site-packages")
    assert measured.watch.packages == {f"{site}/"}
    code = "import lm_eval, sys; print(lm_eval.__file__); print(*sys.path, sep='\\n')"
    told = subprocess.run(
        [venv / "bin" / "python", "-c", code], env={"PATH": os.defpath}, cwd="/", capture_output=True, text=True,
        timeout=LIMIT_S, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert told[0] == f"{site}/lm_eval/__init__.py"
    ours = [path for path in told[1:] if "site-packages" in path and Path(path) != site]
    assert ours == []
    assert all(words.startswith(os.fsencode(venv / "bin" / "python")) for words in measured.watch.harness)


def choices_are_scored_alike(measured: Measured, task: str) -> None:
    normed = {pair.task: "acc_norm" in pair.metrics for pair in PAIRS}[task]
    for theirs, ours in measured.samples(task):
        [their_stage], [our_stage] = theirs["stages"], ours["stages"]
        assert their_stage["prompt"] == our_stage["prompt"]
        assert len(our_stage["logprobs"]) > 2
        assert their_stage["logprobs"] == pytest.approx(our_stage["logprobs"], rel=0, abs=1e-6)
        assert theirs["value"] == theirs["parts"]["acc"] == ours["value"]
        if normed:
            assert theirs["parts"]["acc_norm"] == ours["parts"]["acc_norm"]
        assert their_stage["completion"] == our_stage["completion"]


def answers_are_generated_and_graded_alike(measured: Measured) -> None:
    for theirs, ours in measured.samples("gsm8k_here"):
        [their_stage], [our_stage] = theirs["stages"], ours["stages"]
        assert their_stage["prompt"] == our_stage["prompt"]
        assert their_stage["completion"] == our_stage["completion"] != ""
        assert theirs["value"] == theirs["parts"]["exact_match,strict-match"] == ours["value"]
        assert theirs["parts"]["exact_match,flexible-extract"] == ours["parts"]["flexible"]


def headlines_are_equal(measured: Measured, pair: Pair) -> None:
    theirs, ours = (measured.node.job(job)["score"] for job in measured.jobs[pair.task])
    assert (theirs["benchmark"], theirs["kind"]) == (f"lm-eval:{pair.task}", "harness.lm-eval@0.4.13")
    assert theirs["metrics"].keys() == set(pair.metrics.values())
    assert (theirs.get("errors", 0), theirs["partial"], theirs.get("why_null", "")) == (0, True, "")
    assert theirs["provenance"]["weights_sha256"] == ours["provenance"]["weights_sha256"]
    if pair.task == "mmlu_here":
        assert theirs["n"] == len(SUBJECTS) * LIMIT
        assert theirs["metrics"]["acc"]["value"] == pytest.approx(
            fmean(sample["value"] for _, sample in measured.samples(pair.task))
        )
        return
    assert theirs["n"] == ours["n"] == LIMIT
    for name, known in pair.metrics.items():
        for what in ("value", "stderr", "ci_low", "ci_high"):
            assert theirs["metrics"][known][what] == pytest.approx(ours["metrics"][name][what]), (name, what)


def the_token_of_a_run_stands_nowhere(measured: Measured) -> None:
    """It is seen in the environment of the harness alone: on no command line, and in no file once the run is over."""
    tokens, home = measured.watch.tokens, measured.node.home
    assert len(tokens) == len(PAIRS)
    assert all(len(token) > 30 for token in tokens)
    assert [words for words in measured.watch.lines if any(token in words for token in tokens)] == []
    files = [path for path in home.rglob("*") if path.is_file() and "venv" not in path.relative_to(home).parts]
    assert {path.parent.name for path in files} >= {theirs for theirs, _ in measured.jobs.values()}
    assert [path for path in files if any(token in path.read_bytes() for token in tokens)] == []
    for theirs, _ in measured.jobs.values():
        assert f"{measured.installed}/venv/bin/python -P -m lm_eval run" in log_of(measured.node, theirs)


def test_lm_eval_as_a_harness_measures_as_our_own_profile_does(measured: Measured) -> None:
    """One test, as its runs take minutes: tests of one file may be spread over several processes."""
    own_tasks_count_once_they_are_read_in(measured)
    lm_eval_is_the_installed_one_and_not_ours(measured)
    for task in CHOICES:
        choices_are_scored_alike(measured, task)
    answers_are_generated_and_graded_alike(measured)
    for pair in PAIRS:
        headlines_are_equal(measured, pair)
    the_token_of_a_run_stands_nowhere(measured)
