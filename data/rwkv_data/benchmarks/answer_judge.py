r"""Answer judge: the model itself judges whether an answer agrees with a reference (nvidia/judges-verdict).

    {"question": "...", "gt_answer": "...", "gen_answer": "...", "annotations": [{"score": 1.0}, ...]}

The right judgement is Yes where the mean of the annotators' scores is above 0.5. The parts `false_positive`,
`false_negative` and `invalid` are the shares of all rows on which the model said Yes wrongly, No wrongly, or neither.

The catch: only the split "train" has annotations; it is presented as the test split. rwkv-skills asks the question
itself and compares the model's own answer with "Judgement: Yes", which measures something else; here the prompt shows
question, reference and answer. The number of rows is the one rwkv-skills notes.
"""

import re
from statistics import fmean
from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, Grade, Grader, HubSource, Kind, Row, Stage, by_name
from rwkv_data.definition.errors import RowError
from rwkv_data.profiles import ANSWER_JUDGE
from rwkv_data.profiles.sampling import COT_STOPS, FREE_RESPONSE_COT
from rwkvctl.protocol.engine import Sampling, Stops

_WORD = re.compile(r"[A-Za-z]+")


def from_source(raw: Row) -> dict[str, Any]:
    """The three texts, and the annotators' verdict as the answer."""
    scores = [one["score"] for one in raw.get("annotations") or () if one.get("score") is not None]
    if not scores:
        raise RowError("'annotations' holds no score; only the split 'train' has them")
    return {
        "question": rows.text(raw, "question"),
        "reference": rows.text(raw, "gt_answer"),
        "generated": str(raw.get("gen_answer") or ""),
        "answer": "Yes" if fmean(scores) > 0.5 else "No",
    }


def check_row(row: Row) -> None:
    """A question row with a reference and an answer to judge."""
    rows.check_question(row)
    rows.text(row, "reference")
    if row["answer"] not in {"Yes", "No"} or not isinstance(row.get("generated"), str):
        raise RowError(f"'answer' is {row['answer']!r} or 'generated' is missing; Yes or No, and a text, are wanted")


def prompt(row: Row) -> str:
    """What is to be judged, and the beginning of a chain of thought."""
    return (
        "User: Decide whether an answer to a question agrees with the reference answer. It need not use the same "
        "words, but it must say the same thing.\n"
        f"Question: {row['question']}\nReference answer: {row['reference']}\nAnswer to judge: {row['generated']}\n"
        "Does the answer agree with the reference answer? Finish with Judgement: Yes or Judgement: No."
        "\n\nAssistant: <think"
    )


def grade(row: Row, answer: Answer) -> Grade:
    """answer-judge-v1: the first word of the judgement against the annotators'."""
    found, gold = _WORD.search(answer.text[:200]), row["answer"]
    word = found[0].capitalize() if found else ""
    said = word if word in {"Yes", "No"} else None
    parts = {
        "false_positive": float(said == "Yes" and gold == "No"),
        "false_negative": float(said == "No" and gold == "Yes"),
        "invalid": float(said is None),
    }
    if said is None:
        return Grade(0.0, None, gold, "no_answer", parts=parts)
    return Grade(float(said == gold), said, gold, "right" if said == gold else "wrong", route="sentence", parts=parts)


def _kind() -> Kind:
    profile, version = ANSWER_JUDGE
    final = Stage(
        name="final",
        mode="generate",
        prompt=lambda _row: "\nJudgement:",
        sampling=Sampling(max_tokens=8),
        stops=Stops(suffixes=("\n",)),
    )
    return Kind(
        name="free_response",
        profile=profile,
        profile_version=version,
        stages=(
            Stage(name="cot", mode="generate", prompt=prompt, sampling=FREE_RESPONSE_COT, stops=COT_STOPS),
            final,
        ),
        grader=Grader.of("answer-judge-v1", "1", grade),
        metrics=("pass@1", "false_positive", "false_negative", "invalid"),
    )


_SAME = {"question": "Who wrote it?", "reference": "Ada Lovelace", "generated": "It was Lovelace.", "answer": "Yes"}
_OTHER = {"question": "Who wrote it?", "reference": "Ada Lovelace", "generated": "It was Babbage.", "answer": "No"}

BENCHMARK = Benchmark(
    name="answer_judge",
    version=1,
    domain="free_response",
    title="Answer judge, the model as a judge of answers",
    licence="of the set's page (not known here)",
    split="train",
    rows=200,
    source=HubSource("nvidia/judges-verdict", "default", "train"),
    from_source=from_source,
    check_row=check_row,
    local_files=("train.jsonl", "test.jsonl", "data/train-*.parquet", "*.parquet"),
    kinds=by_name([_kind()]),
    examples=(
        Example(_SAME, Answer(" Yes", ("stop_token", "stop_suffix")), 1.0),
        Example(_SAME, Answer(" No.", ("stop_token", "stop_suffix")), 0.0),
        Example(_OTHER, Answer(" no", ("stop_token", "stop_suffix")), 1.0),
        Example(_OTHER, Answer(" **Yes**", ("stop_token", "stop_suffix")), 0.0),
        Example(_OTHER, Answer(" Perhaps", ("stop_token", "stop_suffix")), 0.0),
    ),
    schema_verified=False,
)
