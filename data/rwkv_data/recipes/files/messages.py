"""Rows as lists of messages: `messages`, which chat templates take, and the pairs that TRL documents as its
conversational preference type with an explicit prompt: `prompt`, `chosen` and `rejected`, the answers without it."""

from rwkv_data.recipes.files.training_row import TrainingRow

Message = dict[str, str]


def messages_row(row: TrainingRow) -> dict[str, list[Message]]:
    """Return a row with one answer."""
    return {"messages": _prompt(row)}


def preference_row(row: TrainingRow) -> dict[str, list[Message]]:
    """Return a row with two answers."""
    chosen, rejected = row.chosen or "", row.rejected or ""
    return {
        "prompt": _prompt(row),
        "chosen": [_message("assistant", chosen)],
        "rejected": [_message("assistant", rejected)],
    }


def _prompt(row: TrainingRow) -> list[Message]:
    system = [_message("system", row.system)] if row.system else []
    return [*system, *(_message(turn.role, turn.text) for turn in row.turns)]


def _message(role: str, text: str) -> Message:
    return {"role": role, "content": text}
