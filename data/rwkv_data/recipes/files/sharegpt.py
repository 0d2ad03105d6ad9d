"""Rows as ShareGPT has them, in the two spellings of who speaks; and what LLaMA-Factory has to be told of such a file.

A row is `{"system", "conversations": [{"from", "value"}]}`. In a pair `conversations` ends with the question, and
`chosen` and `rejected` are one message each; the system text is then the first message, from "system", which
LLaMA-Factory takes for it (`system_tag`), as Sky-T1's files have it.
"""

from typing import Any, Final, Literal

from rwkv_data.recipes.files.training_row import TrainingRow

Roles = Literal["human/gpt", "user/assistant"]
HUMAN_GPT: Final[Roles] = "human/gpt"
Message = dict[str, str]


def sharegpt_row(row: TrainingRow, roles: Roles) -> dict[str, Any]:
    """Return a row with one answer."""
    return {"system": row.system, "conversations": _turns(row, roles)}


def sharegpt_pair(row: TrainingRow, roles: Roles) -> dict[str, Any]:
    """Return a row with two answers."""
    system = [_message("system", row.system)] if row.system else []
    answers = {"chosen": row.chosen or "", "rejected": row.rejected or ""}
    assistant = _names(roles)["assistant"]
    return {"conversations": [*system, *_turns(row, roles)]} | {
        use: _message(assistant, text) for use, text in answers.items()
    }


def dataset_info(file_name: str, roles: Roles, *, pairs: bool) -> dict[str, Any]:
    """Return the entry of a file in LLaMA-Factory's dataset_info.json, with the keys that its data/README.md names."""
    user, assistant = _names(roles).values()
    columns = {"chosen": "chosen", "rejected": "rejected"} if pairs else {"system": "system"}
    return {
        "file_name": file_name,
        "formatting": "sharegpt",
        "ranking": pairs,
        "columns": {"messages": "conversations"} | columns,
        "tags": {"role_tag": "from", "content_tag": "value", "user_tag": user, "assistant_tag": assistant,
                 "system_tag": "system"},
    }  # fmt: skip


def _names(roles: Roles) -> dict[str, str]:
    return dict(zip(("user", "assistant"), roles.split("/"), strict=True))


def _turns(row: TrainingRow, roles: Roles) -> list[Message]:
    names = _names(roles)
    return [_message(names[turn.role], turn.text) for turn in row.turns]


def _message(who: str, text: str) -> Message:
    return {"from": who, "value": text}
