"""Making the rows of a mix: the parts are rows that are there already, so neither the store nor a model is asked."""

import contextlib
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rwkv_daemon.recipes.recipe_card import cleaning_of
from rwkv_daemon.recipes.recipe_folder import MadeRows, RecipeFolder
from rwkv_daemon.recipes.row_cleaning import checked_for, write_dropped
from rwkv_daemon.recipes.row_order import RowOrder
from rwkv_data.definition.errors import PrepareError
from rwkv_data.recipes.cleaned_problems import dropped_problems
from rwkv_data.recipes.files.file_card import FileCard, RowSource
from rwkv_data.recipes.foreign import row_sets
from rwkv_data.recipes.indexed_lines import IndexedLines, LineWriter
from rwkv_data.recipes.mixing.mix import Mix, MixPart
from rwkv_data.recipes.mixing.mixed_rows import MixedRows, MixReading
from rwkvctl import __version__

EVERY = 1000
"""After so many rows it is said how far the writing is."""


@dataclass(frozen=True, slots=True)
class OpenPart:
    """The rows of a part, held open, and the card of what they are. `sha256`: that of their lines; empty if nothing
    says it."""

    part: MixPart
    lines: IndexedLines
    card: FileCard
    sha256: str = ""

    def every(self) -> Iterator[bytes]:
        """Yield all lines. Raises PrepareError at their end if they are not those of the manifest."""
        digest = hashlib.sha256()
        for line in self.lines.every():
            digest.update(line)
            yield line
        if self.sha256 and digest.hexdigest() != self.sha256:
            raise PrepareError(
                f"the rows {self.part.name} are not what their manifest says: `rwkvctl data rows FILE --name "
                f"{self.part.name} --replace` reads their file again"
            )


def make_mix(order: RowOrder, mix: Mix, folder: RecipeFolder, say: Callable[[str], None]) -> MadeRows:
    """Read, clean, draw and write. Raises RwkvctlError, OSError."""
    with contextlib.ExitStack() as stack:
        parts = list[OpenPart]()
        for part in mix.parts:
            parts.append(opened(order, part))
            stack.enter_context(parts[-1].lines)
        reading = MixReading(mix, [one.every() for one in parts], lambda count: say(f"has read {count:,} rows"))
        with tempfile.TemporaryDirectory(prefix="clean-", dir=folder.new) as scratch:
            checked = checked_for(order, Path(scratch), require_all=mix.require_checked)
            dropped = dropped_problems(reading, reading.names, checked, Path(scratch), lambda _: None)
        write_dropped(folder, dropped.values())
        mixed = reading.mixed({number: each.why for number, each in dropped.items()})
        with LineWriter(folder.new, "rows") as rows:
            for number, place in enumerate(mixed.rows):
                if number % EVERY == 0:
                    say(f"writes {number:,} of {len(mixed.rows):,} rows")
                placed = reading.placed(place)
                rows.add(parts[placed.part].lines.line(placed.row))
        found = card(order, mix, parts, mixed, dict(cleaning_of(checked)))
    return MadeRows(rows=len(mixed.rows), funnel=mixed.funnel, card=msgspec.to_builtins(found))


def opened(order: RowOrder, part: MixPart) -> OpenPart:
    """Return the rows of a part. Raises PrepareError if they are gone."""
    if part.is_recipe:
        folder = RecipeFolder(Path(order.folder).with_name(part.name))
        result = folder.result()
        with contextlib.suppress(OSError, msgspec.ValidationError):
            if result is not None:
                made_of = msgspec.convert(result.card, FileCard)
                return OpenPart(part, folder.lines("rows"), made_of)
        raise PrepareError(f"{part.name} has no rows that can be read: it was deleted, or is of another version")
    lines, found = row_sets.opened(Path(order.data_dir), part.name)
    source = RowSource(part.name, found.licence, found.source_sha256, found.source)
    return OpenPart(part, lines, FileCard(title=part.name, sources=(source,)), found.sha256)


def card(order: RowOrder, mix: Mix, parts: Sequence[OpenPart], mixed: MixedRows, cleaning: dict[str, str]) -> FileCard:
    """Return the card: what stands in those of the parts, and how they were mixed. Parts may share jobs and sets."""
    sources = {(each.name, each.rows_sha256): each for one in parts for each in one.card.sources}
    shares = {
        f"part {one.part.name} ({one.card.title})": _share(one, taken)
        for one, taken in zip(parts, mixed.taken, strict=True)
    }
    costs, versions = dict[str, str](), {"rwkvctl": __version__}
    sampling, seeds = dict[str, dict[str, str]](shares), {"mix": mix.seed}
    for one in parts:
        sampling |= {name: dict(settings) for name, settings in one.card.sampling.items()}
        costs |= {_paid_for_part(name, one): cost for name, cost in one.card.costs.items()}
        versions |= {
            name if versions.get(name, version) == version else f"{name} for {one.part.name}": version
            for name, version in one.card.versions.items()
        }
        seeds |= {_of_part(name, one): seed for name, seed in one.card.seeds.items()}
    return FileCard(
        title=order.name or "training rows", funnel=mixed.funnel, sources=list(sources.values()), sampling=sampling,
        cleaning=cleaning, costs=costs, seeds=seeds, versions=versions,
    )  # fmt: skip


def _paid_for_part(name: str, one: OpenPart) -> str:
    """What something was paid for: parts may share jobs, so what was paid for several is no sum."""
    return f"{name} for {one.part.name}" if name.startswith("paid to ") else name


def _of_part(name: str, one: OpenPart) -> str:
    """What a seed is of: each part may have a selection of its own, and they share their jobs."""
    return f"{name} of {one.part.name}" if name == "selection" else name


def _share(one: OpenPart, taken: int) -> dict[str, str]:
    found = {"rows": f"{len(one.lines):,}", "taken": f"{taken:,}"}
    if one.part.weight is not None:
        found["weight"] = repr(one.part.weight).removesuffix(".0")
    if one.part.limit is not None:
        found["limit"] = f"{one.part.limit:,}"
    return found
