"""Benchmarks made of the operator's own rows (`rwkvctl dispatch --rows FILE`): prepared sets called own_NAME.

Their kinds follow from the shape of the rows: questions are asked with a chain of thought and graded as maths (which
compares plain words and numbers too); questions with choices are asked both ways. Each shape has a kind of one turn of
a conversation beside them, for models behind a chat API and for training rows.
"""

import json
from pathlib import Path
from typing import Any

from rwkv_data.definition import rows
from rwkv_data.definition.benchmark import Benchmark, by_name
from rwkv_data.definition.errors import RowsDamagedError
from rwkv_data.definition.kind import Kind
from rwkv_data.graders.maths import grader
from rwkv_data.prepare.sources.own_rows import LICENCE, VERSION
from rwkv_data.profiles import chat_turn
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.multi_choice import multi_choice_cot, multi_choice_plain
from rwkv_data.profiles.multi_choice_text import multi_choice_text

PREFIX = "own_"


def names(data_dir: Path | None) -> list[str]:
    """Return the names of the prepared sets of own rows, sorted."""
    if data_dir is None or not data_dir.is_dir():
        return []
    return sorted(manifest.parent.name for manifest in data_dir.glob(f"{PREFIX}*/manifest.json"))


def benchmark(data_dir: Path, name: str) -> Benchmark:
    """Return the benchmark of a set of own rows. Raises RowsDamagedError if its files are not readable."""
    folder = data_dir / name
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
        with (folder / f"{manifest['split']}.jsonl").open("rb") as file:
            first = json.loads(file.readline())
        count, has_choices = int(manifest["rows"]), "choices" in dict(first)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RowsDamagedError(f"{folder} is not a prepared set ({error}); dispatch its file again") from error
    return Benchmark(
        name=name,
        version=VERSION,
        domain="multi_choice" if has_choices else "free_response",
        title=f"own rows: {manifest.get('source', name)}",
        licence=LICENCE,
        split=manifest["split"],
        rows=count,
        kinds=by_name(choice_kinds() if has_choices else question_kinds()),
        check_row=rows.check_choice if has_choices else rows.check_question,
        examples=(),
        training=bool(manifest.get("training", False)),
    )


def question_kinds() -> list[Kind]:
    """Return the kinds of rows with answers: after a chain of thought whose box is opened, and in one turn."""
    asked = free_response(grader.GRADER, metrics=("pass@1",))
    return [asked, chat_turn.chat("free_response", chat_turn.boxed_question, grader.TEXT)]


def choice_kinds() -> list[Kind]:
    """Return the kinds of rows with choices: answered directly, after a chain of thought, and in one turn."""
    both = [multi_choice_plain(group_by="subject"), multi_choice_cot(group_by="subject")]
    return [*both, multi_choice_text(group_by="subject")]
