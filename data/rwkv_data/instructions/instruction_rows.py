"""Rows of IFEval and IFBench: a prompt, the rules that its response must follow, and their arguments.

{"question": prompt, "key": 1000, "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}], "answer": ""}
"""

from typing import Any

from rwkv_data.definition import rows
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.stage import Row
from rwkv_data.instructions.ifbench import RULES as IFBENCH_RULES
from rwkv_data.instructions.ifeval_rules import RULES as IFEVAL_RULES
from rwkv_data.instructions.rule import bound

RULES = {**IFEVAL_RULES, **IFBENCH_RULES}
"""Every rule under its published name."""


def from_source(raw: Row) -> dict[str, Any]:
    """Return a prepared row from one of `input_data.jsonl`, `IFBench_test.jsonl`, or the hub's tables, which pad
    arguments with None."""
    return {
        "question": rows.text(raw, "prompt"),
        "key": int(raw["key"]),
        "instruction_id_list": list(raw["instruction_id_list"]),
        "kwargs": [_without_padding(arguments) for arguments in raw["kwargs"]],
        "answer": "",
    }


def _without_padding(arguments: Row) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def check_row(row: Row) -> None:
    """Check the shape of a row, and that its rules can use their arguments. Raises RowError.

    An unknown rule is accepted, because a newer set may hold one; its prompts are then not graded.
    """
    rows.text(row, "question")
    rows.whole(row, "key")
    names, kwargs = rows.texts(row, "instruction_id_list"), row.get("kwargs")
    if not names:
        raise RowError("'instruction_id_list' is empty")
    if not isinstance(kwargs, list) or not all(isinstance(arguments, dict) for arguments in kwargs):
        raise RowError("'kwargs' is not a list of tables")
    if len(names) != len(kwargs):
        raise RowError(f"{len(names)} rules, but {len(kwargs)} tables of arguments")
    for name, arguments in zip(names, kwargs, strict=True):
        _check_arguments(name, arguments)


def _check_arguments(name: str, arguments: dict[str, Any]) -> None:
    if name in RULES:
        try:
            bound(RULES[name], _without_padding(arguments))
        except RowError as error:
            raise RowError(f"the rule {name!r} cannot be used: {error}") from error
