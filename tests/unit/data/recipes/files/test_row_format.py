"""How rows are spelled, and what LLaMA-Factory and TRL make of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from training_rows import pair_row, plain_row

from rwkv_data.definition.errors import RowError, SettingError
from rwkv_data.recipes.files.row_format import row_format
from rwkv_data.recipes.files.sharegpt import Roles, dataset_info
from rwkv_data.recipes.files.training_row import TrainingRow

ROW = plain_row("Q", "A", system="S")
PAIR = pair_row("Q", "good", "bad", system="S")


@pytest.mark.parametrize(
    ("form", "row", "spelled"),
    [
        ("sharegpt", ROW, '{"system":"S","conversations":[{"from":"human","value":"Q"},{"from":"gpt","value":"A"}]}'),
        ("sharegpt", plain_row("Q", "A"),
         '{"system":"","conversations":[{"from":"human","value":"Q"},{"from":"gpt","value":"A"}]}'),
        ("sharegpt-preference", PAIR,
         ('{"conversations":[{"from":"system","value":"S"},{"from":"human","value":"Q"}],'
          '"chosen":{"from":"gpt","value":"good"},"rejected":{"from":"gpt","value":"bad"}}')),
        ("messages", ROW,
         ('{"messages":[{"role":"system","content":"S"},{"role":"user","content":"Q"},'
          '{"role":"assistant","content":"A"}]}')),
        ("trl-preference", PAIR,
         ('{"prompt":[{"role":"system","content":"S"},{"role":"user","content":"Q"}],'
          '"chosen":[{"role":"assistant","content":"good"}],"rejected":[{"role":"assistant","content":"bad"}]}')),
        ("rwkv", ROW, r'{"text":"System: S\n\nUser: Q\n\nAssistant: A"}'),
        ("parquet", plain_row("Q", "A"),
         '{"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":"A"}]}'),
    ],
)  # fmt: skip
def test_a_row_is_spelled(form: str, row: TrainingRow, spelled: str) -> None:
    assert row_format(form).line(row).decode() == f"{spelled}\n"


def test_the_older_roles() -> None:
    line = row_format("sharegpt", "user/assistant").line(ROW)
    assert [one["from"] for one in json.loads(line)["conversations"]] == ["user", "assistant"]
    pair = json.loads(row_format("sharegpt-preference", "user/assistant").line(PAIR))
    assert [one["from"] for one in pair["conversations"]] == ["system", "user"]
    assert (pair["chosen"]["from"], pair["rejected"]["from"]) == ("assistant", "assistant")


@pytest.mark.parametrize(
    ("form", "row", "said"),
    [
        ("sharegpt", PAIR, "has no place for; sharegpt-preference, trl-preference, parquet have"),
        ("messages", PAIR, "two answers"),
        ("rwkv", PAIR, "two answers"),
        ("sharegpt-preference", ROW, "one answer, which .* no place for; sharegpt, messages, rwkv, parquet have"),
        ("trl-preference", ROW, "one answer"),
        ("messages", plain_row("Q", "\ud800"), "half a character"),
    ],
)  # fmt: skip
def test_a_row_of_the_other_kind_is_refused(form: str, row: TrainingRow, said: str) -> None:
    with pytest.raises(RowError, match=said):
        row_format(form).line(row)


def test_unknown_formats_roles_and_endings_are_refused() -> None:
    with pytest.raises(SettingError, match="no format 'csv', only sharegpt, sharegpt-preference, messages"):
        row_format("csv")
    with pytest.raises(SettingError, match="no roles 'a/b', only human/gpt and user/assistant"):
        row_format("sharegpt", "a/b")
    with pytest.raises(SettingError, match="roles belong to sharegpt"):
        row_format("messages", "user/assistant")
    with pytest.raises(SettingError, match=r"by the ending \.json, not 't.jsonl'"):
        row_format("sharegpt").check_name("t.jsonl")
    with pytest.raises(SettingError, match=r"by the ending \.jsonl, not 't.json'"):
        row_format("rwkv").check_name("t.json")
    row_format("parquet").check_name("folder")
    for path in (Path(), Path(".."), Path("/")):
        with pytest.raises(SettingError, match="needs a name of its own"):
            row_format("parquet").check_name(path.name)


@pytest.mark.parametrize("roles", ["human/gpt", "user/assistant"])
@pytest.mark.parametrize(("form", "row"), [("sharegpt", ROW), ("sharegpt-preference", PAIR)])
def test_llama_factory_reads_the_row_by_its_entry(form: str, row: TrainingRow, roles: Roles) -> None:
    entry = dataset_info("t.json", roles, pairs=row.is_pair)
    assert entry["file_name"] == "t.json"
    assert by_entry(entry, json.loads(row_format(form, roles).line(row))) == (
        ("S", ["Q"], ["good", "bad"]) if row.is_pair else ("S", ["Q"], ["A"])
    )


def by_entry(entry: dict[str, Any], row: dict[str, Any]) -> tuple[str, list[str], list[str]]:
    """System text, prompt and answers of a row, as LLaMA-Factory's documents say for the sharegpt format: the first
    message may be the system's, users stand at odd places and assistants at even ones, and with `ranking` the answers
    are in columns of their own."""
    assert entry.keys() == {"file_name", "formatting", "ranking", "columns", "tags"}
    assert entry["formatting"] == "sharegpt"
    columns, tags = entry["columns"], entry["tags"]
    assert columns.keys() <= {"messages", "system", "tools", "chosen", "rejected"}
    role, content = tags["role_tag"], tags["content_tag"]
    messages = row[columns["messages"]]
    system = row[columns["system"]] if "system" in columns else ""
    if messages[0][role] == tags["system_tag"]:
        system, messages = messages[0][content], messages[1:]
    expected = [tags["user_tag"], tags["assistant_tag"]] * len(messages)
    assert [one[role] for one in messages] == expected[: len(messages)]
    assert len(messages) % 2 == int(entry["ranking"])
    texts = [one[content] for one in messages]
    if not entry["ranking"]:
        return system, texts[:-1], texts[-1:]
    answers = [row[columns["chosen"]], row[columns["rejected"]]]
    assert {one[role] for one in answers} == {tags["assistant_tag"]}
    return system, texts, [one[content] for one in answers]
