"""The card of a file of training rows: where they come from and what they cost, in Markdown, for people; and in its
head the hashes that `verify` compares.

The head is YAML between two lines of dashes, which the Hugging Face hub reads; ours is one line of JSON in it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from rwkv_data.definition.errors import PrepareError
from rwkv_data.recipes.funnel import FunnelStage
from rwkvctl.text.sanitize import safe_line

_STAMP: Final = re.compile(r"^rwkvctl: (\{.*\})$", re.MULTILINE)
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|~&$!])")
_FENCE: Final = "````"


@dataclass(frozen=True, slots=True)
class RowSource:
    """A prepared set or a foreign file that rows come from, and its licence; empty if it is not known."""

    name: str
    licence: str = ""
    rows_sha256: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCard:
    """What a card says. Mappings are printed in their order; `sampling` has a mapping of settings for each job or
    model, `cleaning` says of each benchmark whether the rows were compared with it. Nothing of it is a time, so that
    the same recipe gives the same card."""

    title: str
    funnel: Sequence[FunnelStage] = ()
    sources: Sequence[RowSource] = ()
    sampling: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cleaning: Mapping[str, str] = field(default_factory=dict)
    costs: Mapping[str, str] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


class FileStamp(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `verify` needs to know of a file: `sha256` has the hash of the file, or of each shard in order."""

    format: str
    rows: int
    sha256: tuple[str, ...]
    lineage_sha256: str


def card_text(card: FileCard, stamp: FileStamp, dataset_info: Mapping[str, Any] | None = None) -> str:
    """Return a card. `dataset_info` is what LLaMA-Factory has to be told of the file."""
    head = f"rwkvctl: {msgspec.json.encode(stamp).decode()}\n"
    intro = f"{stamp.rows:,} rows, format {stamp.format}. The lineage beside them has a line for each, in their order."
    parts = [
        f"# {_cell(card.title)}\n\n{intro}",
        *_section("Funnel", ("stage", "of", "in", "out", "dropped because"), _funnel(card.funnel)),
        *_section("Sources", ("set", "licence", "rows_sha256", "from"), _sources(card.sources)),
        *_section("Sampling", ("of", "setting", "value"), _sampling(card.sampling)),
        *_section("Compared with", ("benchmark", "how"), card.cleaning.items()),
        *_section("Costs", ("what", "cost"), card.costs.items()),
        *_section("Seeds", ("of", "seed"), ((name, str(seed)) for name, seed in card.seeds.items())),
        *_section("Versions", ("of", "version"), card.versions.items()),
        *([_llama_factory(dataset_info)] if dataset_info else []),
    ]
    return f"---\n{head}---\n\n" + "\n\n".join(parts) + "\n"


def stamp_of(card: str) -> FileStamp:
    """Return what the head of a card says. Raises PrepareError if it says nothing."""
    found = _STAMP.search(card.split("\n---\n", 1)[0])
    try:
        return msgspec.json.decode(found[1] if found else "", type=FileStamp)
    except msgspec.DecodeError as error:
        raise PrepareError(f"the head of the card does not say what was written ({error})") from None


def _section(title: str, columns: Sequence[str], rows: Any) -> Iterator[str]:
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    if lines:
        yield "\n".join([f"## {title}\n", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}", *lines])


def _funnel(stages: Sequence[FunnelStage]) -> Iterator[tuple[str, ...]]:
    for stage in stages:
        dropped = ", ".join(f"{count:,} {reason}" for reason, count in stage.dropped.items())
        yield stage.name, stage.unit, f"{stage.rows_in:,}", f"{stage.rows_out:,}", dropped


def _sources(sources: Sequence[RowSource]) -> Iterator[tuple[str, ...]]:
    for source in sources:
        yield source.name, source.licence or "not known", source.rows_sha256, source.url


def _sampling(sampling: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, ...]]:
    for name, settings in sampling.items():
        for setting, value in settings.items():
            yield name, setting, value


def _llama_factory(dataset_info: Mapping[str, Any]) -> str:
    entry = json.dumps(dataset_info, indent=2)
    return f"## LLaMA-Factory\n\nIts entry in dataset_info.json:\n\n{_FENCE}json\n{entry}\n{_FENCE}"


def _cell(text: str) -> str:
    """Foreign text in one line of Markdown, with nothing in it that formats."""
    return _MARKDOWN.sub(r"\\\1", safe_line(text))
