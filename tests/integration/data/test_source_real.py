"""Every file of real rows can be read, in whatever form it lies there, and every benchmark finds its own."""

import pytest

from rwkv_data.definition import registry
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare
from rwkv_data.prepare.sources import local

FILES = [
    ("aime24", "test.jsonl", 30, "problem"),
    ("aime24", "rwkv_skills_aime24_test.jsonl", 30, "expected_answer"),
    ("aime25", "test.jsonl", 30, "expected_answer"),
    ("amc23", "test.jsonl", 40, "problem"),
    ("apps", "train/*/", 5, "input_output"),
    ("arc_challenge", "ARC-Challenge-Test.jsonl", 1150, "answerKey"),
    ("arc_easy", "train.json", 2251, "instruction"),
    ("asdiv", "test.jsonl", 2215, "formula"),
    ("bbh", "bbh/*.json", 6511, "target"),
    ("bbh", "cot-prompts/*.txt", 27, "text"),
    ("ceval", "ceval.zip/val/*.csv", 1346, "answer"),
    ("ceval", "ceval.zip/dev/*.csv", 260, "explanation"),
    ("ceval", "ceval.zip", 12342, "question"),
    ("cmath", "test.jsonl", 600, "grade"),
    ("cmmlu", "test/*.csv", 11582, "Answer"),
    ("cmmlu", "dev/*.csv", 335, "Answer"),
    ("comp_math_24_25", "test.jsonl", 256, "expected_answer"),
    ("gaokao2023en", "test.jsonl", 385, "answer"),
    ("gsm8k", "example_model_solutions.jsonl", 1319, "question"),
    ("hellaswag", "*.jsonl", 500, "endings"),
    ("human_eval", "HumanEval.jsonl.gz", 164, "entry_point"),
    pytest.param("human_eval_plus", "HumanEvalPlus.jsonl.gz", 164, "plus_input", marks=pytest.mark.slow("golds")),
    ("ifeval", "input_data.jsonl", 541, "kwargs"),
    ("livecodebench", "*.json", 4, "answer"),
    ("math", "test.jsonl", 5000, "solution"),
    ("math", "train_answers_only.json", 7474, "problem"),
    ("mbpp", "sanitized-mbpp.json", 427, "test_imports"),
    ("mbpp", "mbpp.jsonl", 974, "test_list"),
    ("mbpp_plus", "MbppPlus.jsonl.gz", 378, "plus_input"),
    ("minerva_math", "test.jsonl", 272, "solution"),
    ("mmlu", "mmlu.zip", 14042, "cells"),
    ("mmlu", "mmlu.zip/data/dev/*.csv", 285, "cells"),
    ("mmlu", "dev_hf_dataset/*.arrow", 285, "choices"),
    ("mmlu_stem", "test.jsonl", 3018, "choices"),
    ("olympiadbench", "test.jsonl", 675, "final_answer"),
    ("taco", "taco_generation_example.json", 1000, "prompt"),
]


@pytest.mark.parametrize(("folder", "name", "count", "field"), FILES)
def test_every_real_file_is_read(real_rows, folder: str, name: str, count: int, field: str) -> None:
    raw = local.open_rows(real_rows / folder, (name,), "test")
    rows = [row for _, row in raw.placed]
    assert len(rows) == count
    assert all(field in row for row in rows)
    assert raw.revision.startswith("sha256:")


def test_both_forms_of_the_examples_of_mmlu_say_the_same(real_rows) -> None:
    hub = [row for _, row in local.open_rows(real_rows / "mmlu", ("dev_hf_dataset/*.arrow",), "dev").placed]
    table = [row["cells"] for _, row in local.open_rows(real_rows / "mmlu", ("mmlu.zip",), "dev").placed]
    asked = {(row["question"].strip(), "ABCD"[row["answer"]]) for row in hub}
    assert len(asked & {(cells[0].strip(), cells[-1]) for cells in table}) > 270


WITHOUT_TESTS = {"livecodebench", "taco"}
"""Sets of which only questions lie among the real rows, without the tests that a row must have."""


def lying_there(real_rows) -> list[str]:
    return [name for name in registry.names() if (real_rows / name).is_dir() and name not in WITHOUT_TESTS]


@pytest.mark.slow("golds")
def test_every_benchmark_finds_its_rows_in_the_folder_of_all(real_rows, tmp_path) -> None:
    found = {}
    for name in lying_there(real_rows):
        benchmark = registry.load(name)
        manifest = prepare(benchmark, tmp_path, real_rows)
        assert len(prepared_sets.load_rows(tmp_path, benchmark)) == manifest.rows > 0
        if manifest.pool_sha256:
            assert len(prepared_sets.load_pool(tmp_path, benchmark)) == manifest.pool_rows > 0
        found[name] = manifest
    assert found["gsm8k"].pool_rows == 7473
    assert found["mmlu"].pool_rows == 285
    assert found["arc_challenge"].complete
