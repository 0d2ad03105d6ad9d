r"""Rows of Arena-Hard-Auto: prompts in one file, the answers to compare with in another, joined by their ids.

    question.jsonl     {"uid": "328c...", "category": "arena-hard-v0.1", "cluster": "...", "prompt": "..."}
    gpt-4-0314.jsonl   {"uid": "328c...", "model": "gpt-4-0314",
                        "messages": [..., {"role": "assistant", "content": {"answer": "..."}}]}

The first release called the id `question_id` and had `turns` with `content` in both, the answers' below `choices`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from rwkv_data.definition import rows
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.stage import Row

BASELINE: Final = "gpt-4-0314"


def joined(raws: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Every prompt, in order, with the answer that has its id (none where there is none)."""
    prompts: dict[str, Row] = {}
    answers: dict[str, str] = {}
    for raw in raws:
        uid = str(rows.first(raw, "uid", "question_id") or "")
        if "messages" in raw or "choices" in raw:
            answers[uid] = answer_of(raw)
        else:
            prompts[uid] = raw
    for uid, raw in prompts.items():
        yield {**raw, "uid": uid, "baseline": answers.get(uid, "")}


def answer_of(raw: Row) -> str:
    """The text of a model's answer, in either form."""
    if "choices" in raw:
        return str(raw["choices"][0]["turns"][0]["content"])
    said = [message["content"] for message in raw["messages"] if message["role"] == "assistant"]
    content = said[-1] if said else ""
    return str(content["answer"] if isinstance(content, dict) else content)


def from_source(raw: Row) -> dict[str, Any]:
    """A joined row as a prepared one; the answer is the name of the model to compare with."""
    prompt = raw["prompt"] if "prompt" in raw else raw["turns"][0]["content"]
    return {
        "question": str(prompt),
        "baseline": raw["baseline"],
        "answer": BASELINE,
        "cluster": str(raw.get("cluster") or ""),
        "id": raw["uid"],
    }


def check_row(row: Row) -> None:
    """A prompt, and an answer to compare with."""
    rows.check_question(row)
    if not str(row.get("baseline") or "").strip():
        raise RowError(f"there is no answer of {row['answer']} to compare with")
