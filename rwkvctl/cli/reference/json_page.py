"""Writes `docs/json.md` from the messages themselves: `python -m rwkvctl.cli.reference.json_page > docs/json.md`."""

import re
import sys
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct
from msgspec.inspect import type_info

from rwkvctl.protocol.events import Event, LogChunk
from rwkvctl.protocol.routes import AnyReply

INTRODUCTION: Final = """\
# JSON

Written by `python -m rwkvctl.cli.reference.json_page`; `make docs` brings it up to date, and a test compares.

`--json` (or `-o json`) prints the daemon's reply as it came, on one line: an object whose `schema` names it, with
`as_of` (RFC 3339, UTC) and `node`, and the fields below. Durations are seconds, sizes bytes, scores fractions of 1;
numbers never depend on the locale. Text of models is raw here: make it safe before you show it. A field that has its
default may be left out, and later versions add fields, so ignore those you do not know. A changed meaning changes the
number in `schema`.

`logs --json` prints one `LogChunk` a line, and `/v1/events` streams one `Event` a line.
"""
LOCAL: Final = {
    "rwkvctl.waited/1": "`dispatch --wait`: `session`, scores as `items` (ScoreView), all jobs as `jobs` (JobView).",
    "rwkvctl.version/1": "`version`: `version`, `api_min`, `api_max`, and the daemon's info as `daemon`, or null.",
    "rwkvctl.config/1": "`config show`: `items` of `name`, `value`, `origin`, `help`, and the `files` that were read, "
    "the last one wins (with `--daemon`: ConfigReply).",
    "rwkvctl.doctor/1": "`doctor`: `items` of `name`, `verdict` (ok, missing, optional), `what`, `remedy`.",
    "rwkvctl.help/1": "`help`: `items` of `verb`, `summary`, `flags`; `exit_codes`.",
    "rwkvctl.weights/1": "`weights list`: `items` of the parts of the name, `path`, `size_bytes`, `sha256`, `builtin`.",
    "rwkvctl.weights-show/1": "`weights show`: dimensions, ranks, parameters and memory of one checkpoint.",
    "rwkvctl.weights-verify/1": "`weights verify`: `ok`, `sha256`, and `checks` of `name`, `ok`, `what`.",
    "rwkvctl.weights-adapter/1": "`weights inspect`: `kind`, `ranks`, `alpha` (null where it is not said) and what "
    "else is said of an adapter; `fits`, the base it was compared with.",
    "rwkvctl.weights-merge/1": "`weights merge`: `path`, `sha256`, and what it was made of; `derived` is equal for "
    "equal parts.",
    "rwkvctl.engine-verify/1": "`engine verify`: `model`, `numerics`, `device`, `torch`, `ok`, and `checks` of `name`, "
    "`ok` (null where nothing is promised), `what`.",
    "rwkvctl.harness-build/1": "`harness build`: the `name` of the harness, and how many `tasks` it has.",
    "rwkvctl.samples-diff/1": "`samples diff`: `one`, `other`, `row`, `repeat`, `same`, and `lines`, a unified diff.",
    "rwkvctl.weights-download/1": "`weights download`: `items` of `file`, `size_bytes`, `sha256`, and what was done.",
    "rwkvctl.watch-wait/1": "`watch wait`: `checkpoint`, `verdict` (passed, regression, undecided, skipped), `items` "
    "as of `gate`; `watch`, `model`, `baseline`, `margin`, `alpha`, `left_out` if it was measured, or `state`, `why`.",
    "rwkvctl.gate/1": "`gate`: `model`, `baseline`, `margin`, `alpha`, `verdict` (passed, regression, undecided), and "
    "`items` (ComparisonView) with `gate`, the same word for each.",
    "rwkvctl.report/1": "`report`: the `file` that was written, its `bytes`, and how many `runs` and `samples` it has.",
    "rwkvctl.export/1": "`export --to`: `format`, and the `files` that were written.",
    "rwkvctl.completion/1": "`completion`: `shell`, `script`.",
}
"""Envelopes that the command line writes without the daemon."""


def page() -> str:
    """Return docs/json.md: every reply, what the command line writes itself, and the parts of replies."""
    replies = get_args(AnyReply)
    parts = [INTRODUCTION, "\n## Replies\n"]
    parts += [section(reply, reply.__struct_config__.tag) for reply in replies]
    parts += ["\n## Written by the command line itself\n\n", *(f"- `{name}`: {text}\n" for name, text in LOCAL.items())]
    parts += ["\n## Parts of replies\n", *(section(part, part.__name__) for part in nested([*replies, *STREAMED]))]
    return "".join(parts)


STREAMED: Final[list[type[Struct]]] = [LogChunk, Event]


def nested(roots: list[type[Struct]]) -> list[type[Struct]]:
    """Return the structs that `roots` and the streams contain, each once, in order of appearance."""
    found: dict[type[Struct], None] = dict.fromkeys(STREAMED)
    for root in roots:
        for field in msgspec.structs.fields(root):
            for part in structs_in(type_info(field.type)):
                found |= dict.fromkeys([part, *nested_only(part)])
    return list(found)


def nested_only(struct: type[Struct]) -> list[type[Struct]]:
    """Return the structs that the fields of a struct mention directly."""
    return [part for field in msgspec.structs.fields(struct) for part in structs_in(type_info(field.type))]


def structs_in(info: Any) -> list[type[Struct]]:
    """Return the structs that a type mentions, also inside containers and unions."""
    if isinstance(info, msgspec.inspect.StructType):
        return [info.cls]
    inner = [getattr(info, name) for name in ("item_type", "value_type") if hasattr(info, name)]
    inner += list(getattr(info, "types", ()))
    return [found for part in inner for found in structs_in(part)]


def section(struct: type[Struct], title: str) -> str:
    """Return the Markdown section of one struct: its docstring and its fields."""
    words = " ".join((struct.__doc__ or "").split())
    rows = "".join(f"| `{field.name}` | {spelled(field)} |\n" for field in msgspec.structs.fields(struct))
    return f"\n### {title}\n\n{words}\n\n| field | type |\n|---|---|\n{rows}"


def spelled(field: msgspec.structs.FieldInfo) -> str:
    """A field's type in words, and its default."""
    plain = isinstance(field.type, type) and not hasattr(field.type, "__args__")
    text = field.type.__name__ if plain else str(field.type)
    text = re.sub(r"typing\.Annotated\[(\w+), msgspec\.Meta\([^)]*\)\]", r"\1", text)
    text = re.sub(r"typing\.Optional\[(.*)\]", r"\1 or None", text)
    text = re.sub(r"[\w.]*\.(\w+)", r"\1", text).replace("NoneType", "null").replace("None", "null")
    text = re.sub(r"Union\[(.*)\]", r"\1", text).replace("|", "or").replace("tuple[", "list[").replace(", ...]", "]")
    text = text.replace("Raw", "object")
    text = re.sub(r"Literal\[(.*?)\]", lambda words: words[1].replace("''", "empty").replace("'", ""), text)
    default = "" if field.required or field.default is msgspec.NODEFAULT else f" (default `{field.default!r}`)"
    return text + default.replace("None", "null").replace("`''`", "empty").replace("`()`", "empty")


if __name__ == "__main__":
    sys.stdout.write(page())
