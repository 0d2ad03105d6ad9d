"""lm_eval as an oracle for what is scored: prompts and continuations byte for byte, and the measures that follow from
given log-likelihoods, sample by sample.

The harness runs unmodified and offline in its own process, on its own task files with other data (evals.md, section 6).
A log-likelihood is a hash of what is scored, so both sides know it without telling each other.
"""

import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.answer import Answer
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.prepare.row_shapes import choice_arc, choice_bbh, choice_hellaswag
from rwkv_data.scoring import statistics

lm_eval = pytest.importorskip("lm_eval", reason="needs lm_eval: not installed")
pytestmark = [pytest.mark.slow("oracles"), pytest.mark.timeout(600)]

STOCK = Path(lm_eval.__path__[0], "tasks")
SUBJECTS = ("abstract_algebra", "high_school_european_history", "us_foreign_policy")
CHINESE = ("agronomy", "chinese_civil_service_exam", "machine_learning")
EXAMS = ("accountant", "high_school_chinese", "middle_school_politics")
EACH = 60
SCRIPT = """
import hashlib, json, sys
import lm_eval
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

def likelihood(context, continuation):
    digest = hashlib.sha256(f"{context}\\0{continuation}".encode()).digest()
    return -20 * int.from_bytes(digest[:6], "big") / 2**48, digest[6] % 2 == 0

def completion(doc, number):
    said = {0: f"So the answer is {doc['target']}.", 1: f"So the answer is {doc['target']}", 2: "I do not know."}
    return said.get(number % 4, "Thus the answer is (A). No, the answer is nothing.")

class GivenLM(LM):
    def loglikelihood(self, requests):
        return [likelihood(*request.args) for request in requests]
    def generate_until(self, requests):
        return [completion(request.doc, request.doc_id) for request in requests]
    def loglikelihood_rolling(self, requests):
        raise NotImplementedError

folder = sys.argv[1]
manager, found = TaskManager(include_path=folder, include_defaults=False), {}
for shots, tasks in json.load(open(f"{folder}/runs.json")).items():
    result = lm_eval.simple_evaluate(
        model=GivenLM(), tasks=tasks, task_manager=manager, num_fewshot=None if shots == "own" else int(shots),
        bootstrap_iters=100, log_samples=True)
    for task, samples in result["samples"].items():
        found[f"{task}/{shots}"] = sorted(samples, key=lambda sample: sample["doc_id"])
        found[f"{task}/{shots}/results"] = result["results"][task]
json.dump(found, open(f"{folder}/found.json", "w"), default=str)
"""


class Task(NamedTuple):
    """A task of the harness on our data: the stock file it includes, its documents by split, our rows and examples."""

    name: str
    stock: str
    docs: dict[str, list[Any]]
    benchmark: Benchmark
    rows: list[Row]
    pool: list[Row]
    runs: tuple[str, ...]


def likelihood(context: str, continuation: str) -> tuple[float, bool]:
    digest = hashlib.sha256(f"{context}\0{continuation}".encode()).digest()
    return -20 * int.from_bytes(digest[:6], "big") / 2**48, digest[6] % 2 == 0


def converted(benchmark: Benchmark, raws: list[Row], *, pool: bool = False) -> list[Row]:
    expanded = benchmark.expand(raws) if benchmark.expand else raws
    return [benchmark.convert(raw, pool=pool) for raw in expanded]


def table(content: bytes) -> list[dict[str, str]]:
    lines = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
    return [{name: cell for name, cell in line.items() if name != "explanation"} for line in lines]


def mmlu_tasks(data: Path) -> list[Task]:
    benchmark, tasks = registry.load("mmlu"), []
    with zipfile.ZipFile(data / "mmlu" / "mmlu.zip") as archive:
        for subject in SUBJECTS:
            cells = {
                split: list(csv.reader(io.StringIO(archive.read(f"data/{split}/{subject}_{split}.csv").decode(), "")))
                for split in ("test", "dev")
            }
            docs = {
                split: [
                    {"question": c[0], "subject": subject, "choices": c[1:5], "answer": "ABCD".index(c[5])}
                    for c in lines
                ]
                for split, lines in cells.items()
            }
            raws = {s: [{"cells": c, "subject": subject} for c in lines] for s, lines in cells.items()}
            rows, pool = converted(benchmark, raws["test"]), converted(benchmark, raws["dev"], pool=True)
            stock = f"mmlu/default/mmlu_{subject}.yaml"
            tasks.append(Task(f"mmlu_{subject}", stock, docs, benchmark, rows, pool, ("0", "5")))
    return tasks


def chinese_tasks(data: Path) -> list[Task]:
    cmmlu, ceval, tasks = registry.load("cmmlu"), registry.load("ceval"), []
    for subject in CHINESE:
        docs = {split: table((data / "cmmlu" / split / f"{subject}.csv").read_bytes()) for split in ("test", "dev")}
        rows, pool = _with_file(cmmlu, docs["test"], subject), _with_file(cmmlu, docs["dev"], subject)
        tasks.append(Task(f"cmmlu_{subject}", f"cmmlu/cmmlu_{subject}.yaml", docs, cmmlu, rows, pool, ("0", "5")))
    with zipfile.ZipFile(data / "ceval" / "ceval.zip") as archive:
        for subject in EXAMS:
            docs = {split: table(archive.read(f"{split}/{subject}_{split}.csv")) for split in ("val", "dev")}
            rows, pool = _with_file(ceval, docs["val"], subject), _with_file(ceval, docs["dev"], subject)
            stock = f"ceval/ceval-valid_{subject}.yaml"
            tasks.append(Task(f"ceval_{subject}", stock, docs, ceval, rows, pool, ("0", "3")))
    return tasks


def _with_file(benchmark: Benchmark, docs: list[dict[str, str]], subject: str) -> list[Row]:
    return converted(benchmark, [{**doc, "_file": subject} for doc in docs])


def arc_tasks(data: Path) -> list[Task]:
    tasks = []
    for name, file, train in (
        ("arc_challenge", "ARC-Challenge-Test.jsonl", "llm_adapters_train.json"),
        ("arc_easy", "test.json", "train.json"),
    ):
        benchmark, folder = registry.load(name), data / name
        text = (folder / file).read_text()
        raws = json.loads(text) if file.endswith(".json") else [json.loads(line) for line in text.splitlines()]
        rows = converted(benchmark, raws[:EACH])
        pool = [choice_arc.from_source(raw) for raw in json.loads((folder / train).read_text())[:300]]
        docs = {"test": [_arc_doc(row) for row in rows], "train": [_arc_doc(row) for row in pool]}
        docs["validation"] = docs["train"]
        tasks.append(Task(name, f"arc/{name}.yaml", docs, benchmark, rows, pool, ("0", "25")))
    return tasks


def _arc_doc(row: Row) -> dict[str, Any]:
    labels = [str(number) for number in range(1, len(row["choices"]) + 1)]
    choices = {"text": row["choices"], "label": labels}
    return {
        "id": "x",
        "question": row["question"],
        "choices": choices,
        "answerKey": labels["ABCDE".index(row["answer"])],
    }


def hellaswag_task(data: Path) -> Task:
    """The copies have the joined text alone: both sides get the halves that we tell apart."""
    benchmark = registry.load("hellaswag")
    lines = (data / "hellaswag" / "hellaswag_val_500_en.jsonl").read_text().splitlines()
    docs = [_hellaswag_doc(json.loads(line)) for line in lines[: 2 * EACH]]
    made = {
        "activity_label": "Cutting [the] lawn",
        "ctx_a": " A man  mows. [header] How to mow [title] Begin.   Now",
        "ctx_b": "the Man [step] In Red",
        "endings": [" [substeps] stops.", "goes [on\n] and  on  ", "[x] [y]sits", "[title] ends [title]"],
        "label": "2",
    }
    docs = [made, *docs]
    rows, train = converted(benchmark, docs), docs[:40]
    return Task(
        "hellaswag",
        "hellaswag/hellaswag.yaml",
        {"validation": docs, "train": train},
        benchmark,
        rows,
        converted(benchmark, train, pool=True),
        ("0", "10"),
    )


def _hellaswag_doc(raw: Row) -> dict[str, Any]:
    first, second = choice_hellaswag.halves(raw)
    return {
        "activity_label": raw["activity_label"],
        "ctx_a": first,
        "ctx_b": second,
        "endings": raw["endings"],
        "label": str(raw["label"]),
    }


def bbh_tasks(data: Path) -> list[Task]:
    benchmark, tasks = registry.load("bbh"), []
    for name in choice_bbh.SHA256:
        docs = json.loads((data / "bbh" / "bbh" / f"{name}.json").read_text())["examples"][:8]
        worked = (data / "bbh" / "cot-prompts" / f"{name}.txt").read_text()
        rows = converted(benchmark, [{**doc, "_file": name} for doc in docs])
        pool = converted(benchmark, [{"text": worked, "_file": name}], pool=True)
        stock = f"bbh/cot_fewshot/{name}.yaml"
        tasks.append(Task(f"bbh_{name}", stock, {"test": docs}, benchmark, rows, pool, ("own",)))
    return tasks


def lambada_task() -> Task:
    texts = [
        "He opened the  door and saw his old friend, the Captain",
        'She said, "I will not go',
        "one two\nthree four.",
    ]
    docs = [{"text": text} for text in texts]
    benchmark = registry.load("lambada")
    rows = converted(benchmark, docs)
    return Task("lambada", "lambada/lambada_openai.yaml", {"test": docs}, benchmark, rows, [], ("0",))


@pytest.fixture(scope="module")
def tasks(real_rows) -> dict[str, Task]:
    every = [*mmlu_tasks(real_rows), *chinese_tasks(real_rows), *arc_tasks(real_rows), *bbh_tasks(real_rows)]
    return {task.name: task for task in [*every, hellaswag_task(real_rows), lambada_task()]}


@pytest.fixture(scope="module")
def harness(tasks, tmp_path_factory) -> dict[str, Any]:
    """The harness's samples, and its results, by task and number of examples."""
    folder = tmp_path_factory.mktemp("harness")
    runs: dict[str, list[str]] = {}
    for task in tasks.values():
        files = {split: folder / f"{task.name}_{split}.jsonl" for split in task.docs}
        for split, path in files.items():
            path.write_text("".join(json.dumps(doc) + "\n" for doc in task.docs[split]))
        listed = "".join(f"    {split}: {path}\n" for split, path in files.items())
        (folder / f"{task.name}.yaml").write_text(
            f"include: {STOCK / task.stock}\ntask: ours_{task.name}\ndataset_path: json\ndataset_name: null\n"
            f"dataset_kwargs:\n  data_files:\n{listed}"
        )
        for shots in task.runs:
            runs.setdefault(shots, []).append(f"ours_{task.name}")
    (folder / "runs.json").write_text(json.dumps(runs))
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf")}
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=500, check=False)
    assert run.returncode == 0, run.stderr[-9000:]
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


def asked(task: Task, kind: Kind, shots: str) -> list[tuple[Row, str]]:
    """Our rows with their prompts."""
    kind = kind if shots == "own" or not kind.shots else kind.with_settings({"shots": shots})
    return [(row, kind.prompt(0, row)) for row in kind.asked(task.rows, task.pool)]


@pytest.mark.parametrize(
    ("name", "kind_name", "shots"),
    [
        *[(f"mmlu_{subject}", "multi_choice_plain.lm-eval", shots) for subject in SUBJECTS for shots in ("0", "5")],
        *[(f"cmmlu_{subject}", "multi_choice_plain.lm-eval", shots) for subject in CHINESE for shots in ("0", "5")],
        *[(f"ceval_{subject}", "multi_choice_plain.lm-eval", shots) for subject in EXAMS for shots in ("0", "3")],
        *[
            (f"arc_{which}", "multi_choice_plain.lm-eval", shots)
            for which in ("challenge", "easy")
            for shots in ("0", "25")
        ],
        ("hellaswag", "multi_choice_plain.lm-eval", "0"),
        ("hellaswag", "multi_choice_plain.lm-eval", "10"),
        ("lambada", "lambada", "0"),
    ],
)
def test_scored_texts_and_measures_are_the_harness_s(tasks, harness, name: str, kind_name: str, shots: str) -> None:
    task, samples = tasks[name], harness[f"ours_{name}/{shots}"]
    kind = task.benchmark.kinds[kind_name]
    ours = asked(task, kind, shots)
    assert len(ours) == len(samples) > 2
    values = []
    for (row, prompt), sample in zip(ours, samples, strict=True):
        choices = kind.stages[0].choices(row)
        assert sample["arguments"] == [[prompt, choice] for choice in choices]
        scores = [likelihood(prompt, choice) for choice in choices]
        grade = kind.grade(row, Answer(logprobs=tuple(s for s, _ in scores), greedy=tuple(g for _, g in scores)))
        assert grade.value == sample["acc"]
        values.append(grade.value)
        if "acc_norm" in grade.parts:
            assert grade.parts["acc_norm"] == sample["acc_norm"]
        if name == "lambada":
            assert grade.parts["logprob"] == pytest.approx(sample["perplexity"])
            assert grade.parts["words"] == 1
    results, estimate = harness[f"ours_{name}/{shots}/results"], statistics.estimate(values)
    assert estimate.value == pytest.approx(results["acc,none"])
    assert estimate.stderr == pytest.approx(results["acc_stderr,none"])


@pytest.mark.parametrize("name", choice_bbh.SHA256)
def test_bbh_is_asked_and_graded_as_the_harness_does(tasks, harness, name: str) -> None:
    task, samples = tasks[f"bbh_{name}"], harness[f"ours_bbh_{name}/own"]
    kind = task.benchmark.kinds["free_response.lm-eval"]
    for (row, prompt), sample in zip(asked(task, kind, "own"), samples, strict=True):
        [[context, settings]] = sample["arguments"]
        assert context == prompt
        assert tuple(settings["until"]) == kind.stages[0].stops.suffixes
        assert settings["max_gen_toks"] == kind.stages[0].sampling.max_tokens
        assert settings["temperature"] == kind.stages[0].sampling.temperature == 0
        [[text]] = sample["resps"]
        assert kind.grade(row, Answer(text, ("stop_suffix",))).value == sample["exact_match"]
