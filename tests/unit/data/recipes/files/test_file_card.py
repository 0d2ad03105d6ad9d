"""The card beside a file."""

import re

import pytest
from training_rows import TEXTS

from rwkv_data.definition.errors import PrepareError
from rwkv_data.recipes.files.file_card import FileCard, FileStamp, RowSource, card_text, stamp_of
from rwkv_data.recipes.funnel import stage

STAMP = FileStamp(format="messages", rows=8871, sha256=("a" * 64,), lineage_sha256="b" * 64)
CARD = FileCard(
    title="r3 sky.toml",
    funnel=[
        stage("right", "samples", 51180, {"cut off": 441, "wrong": 26102, "no answer": 1733}),
        stage("rows", "rows", 8871, {}),
    ],
    sources=[RowSource("numina_math", "Apache-2.0", "c" * 64, "https://hub.example/numina"), RowSource("own.jsonl")],
    sampling={"j81": {"temperature": "0.7", "max_tokens": "16384"}},
    costs={"writer": "61.20 of 100.00, 3 keys"},
    seeds={"order": 7},
    versions={"rwkvctl": "0.1.0"},
)


def body(text: str) -> list[str]:
    """The lines of a card that has a text in all places."""
    card = FileCard(
        title=text,
        funnel=[stage(text, text, 1, {text: 1})],
        sources=[RowSource(text, text, text, text)],
        sampling={text: {text: text}},
        costs={text: text},
    )
    text = card_text(card, STAMP, {"t": {"file_name": text}})
    assert stamp_of(text) == STAMP
    return text.split("## LLaMA-Factory")[0].split("\n")


def test_a_card_says_all_of_it() -> None:
    assert (
        card_text(CARD, STAMP)
        == f"""\
---
rwkvctl: {{"format":"messages","rows":8871,"sha256":["{"a" * 64}"],"lineage_sha256":"{"b" * 64}"}}
---

# r3 sky.toml

8,871 rows, format messages. The lineage beside them has a line for each, in their order.

## Funnel

| stage | of | in | out | dropped because |
|---|---|---|---|---|
| right | samples | 51,180 | 22,904 | 26,102 wrong, 1,733 no answer, 441 cut off |
| rows | rows | 8,871 | 8,871 |  |

## Sources

| set | licence | rows_sha256 | from |
|---|---|---|---|
| numina\\_math | Apache-2.0 | {"c" * 64} | https://hub.example/numina |
| own.jsonl | not known |  |  |

## Sampling

| of | setting | value |
|---|---|---|
| j81 | temperature | 0.7 |
| j81 | max\\_tokens | 16384 |

## Costs

| what | cost |
|---|---|
| writer | 61.20 of 100.00, 3 keys |

## Seeds

| of | seed |
|---|---|
| order | 7 |

## Versions

| of | version |
|---|---|
| rwkvctl | 0.1.0 |
"""
    )


def test_a_folder_has_the_hash_of_each_shard() -> None:
    stamp = FileStamp(format="parquet", rows=1, sha256=("a" * 64, "b" * 64), lineage_sha256="c" * 64)
    assert stamp_of(card_text(FileCard(title="t"), stamp)) == stamp


@pytest.mark.parametrize("text", TEXTS)
def test_no_text_changes_the_head_or_the_tables(text: str) -> None:
    lines, plain = body(text), body("x")
    assert all(line.isprintable() for line in lines)
    assert [re.sub(r"\\.|[^|]", "", line) for line in lines] == [re.sub("[^|]", "", line) for line in plain]


@pytest.mark.parametrize("card", ["", "# title", "---\nrwkvctl: {}\n---\n", "---\nrwkvctl: [\n---\n",
                                  'text\n---\n\nrwkvctl: {"format":"x"}\n'])  # fmt: skip
def test_a_card_without_a_head_is_refused(card: str) -> None:
    with pytest.raises(PrepareError, match="does not say what was written"):
        stamp_of(card)
