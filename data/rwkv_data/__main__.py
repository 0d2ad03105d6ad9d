"""`python -m rwkv_data prepare NAME… | own FILE | rows | label NAME | list | sandbox | show NAME [KIND] |
diff NAME KIND KIND | decontaminate FILE | write-rows | verify-rows FILE`, each with `--home DIR` and `--json`.

Without --home the configuration decides where data lies. Exit codes are those of `rwkvctl.protocol.errors.Exit`; one
line on standard error says what went wrong.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from rwkv_data import sandbox
from rwkv_data.definition import overrides, own_benchmark, registry
from rwkv_data.labels.label_file import StoredLabels, labels_of
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepare import prepare, prepare_own
from rwkv_data.prepare.sources.raw import Progress
from rwkv_data.reference.show import difference, facts, kind_of, show
from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.settings import config
from rwkvctl.text import tab_lines
from rwkvctl.text.json_envelope import fail, say, say_json
from rwkvctl.text.label_lines import label_lines
from rwkvctl.text.progress_meter import Meter
from rwkvctl.text.quantities import several
from rwkvctl.text.sanitize import safe_line, safe_text

if TYPE_CHECKING:
    from rwkv_data.recipes.files.row_files import WrittenFiles
    from rwkv_data.recipes.foreign.row_sets import RowSet

ORDERS_SHOWN = 3
PIPE_CLOSED = 141
"""As a shell sees a process that SIGPIPE ended."""


class Printed(NamedTuple):
    """What a verb prints: lines for people, values for --json; and its exit code."""

    lines: list[str]
    plain: Any
    code: Exit = Exit.OK


def main(argv: Sequence[str] | None = None) -> int:
    """Run the verb that `argv` names and return the exit code; errors are printed on standard error."""
    arguments = _parser().parse_args(argv)
    try:
        lines, plain, code = arguments.run(arguments, config.load({"home": str(arguments.home or "")}))
    except RwkvctlError as error:
        return fail("rwkv_data", error, as_json=arguments.json)
    except KeyboardInterrupt:
        print("rwkv_data: interrupted", file=sys.stderr)
        return int(Exit.INTERRUPTED)
    try:
        if arguments.json:
            say_json(json.dumps(plain, ensure_ascii=False))
        else:
            say(lines)
    except BrokenPipeError:  # `| head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return int(code)


def _prepare(arguments: argparse.Namespace, found: config.Config) -> Printed:
    """Each of the named sets; one that cannot be had does not keep the others from being prepared."""
    catalogue, lines, plain, failed = _catalogue(found), [], [], []
    for name in arguments.names or _unnamed(catalogue):
        try:
            benchmark = catalogue.load(name)
            with Meter(in_bytes=True, quiet=arguments.json) as fetching, Meter(quiet=arguments.json) as reading:
                manifest = prepare(
                    benchmark,
                    found.data_dir,
                    arguments.source,
                    pool=arguments.pool,
                    cache=found.home / "cache",
                    report=partial(_shown, fetching, reading),
                )
        except RwkvctlError as error:
            if len(arguments.names) == 1:
                raise
            failed.append(error)
            print(f"rwkv_data: {safe_line(f'{name}: {error}')}", file=sys.stderr)
            continue
        lines += _of_manifest(manifest, prepared_sets.rows_path(found.data_dir, benchmark))
        plain.append(msgspec.to_builtins(manifest))
    if failed:
        raise type(failed[0])(f"{len(failed)} sets could not be prepared, {len(plain)} are")
    return Printed(lines, plain[0] if len(arguments.names) == 1 else plain)


def _unnamed(catalogue: registry.Catalogue) -> list[str]:
    """What is prepared when nothing is named: every benchmark that has rows elsewhere. Training sets are gigabytes that
    nobody asked for, and rows of one's own were prepared from their file."""
    names = (name for name in catalogue.names() if not name.startswith(own_benchmark.PREFIX))
    return [name for name in names if not (one := catalogue.load(name)).built_in and not one.training]


def _of_manifest(manifest: prepared_sets.Manifest, where: Path) -> list[str]:
    rows = f"{manifest.rows} rows" if manifest.complete else f"{manifest.rows} of {manifest.rows_complete} rows"
    line = f"{manifest.benchmark}: {rows} from {manifest.source} in {where} (sha256 {manifest.sha256[:12]})"
    left_out = [f"left out on purpose: {manifest.left_out} rows"] if manifest.left_out else []
    pool = [f"few-shot examples: {manifest.pool_rows} from {manifest.pool_source}"] if manifest.pool_sha256 else []
    return [line, *left_out, *pool]


def _own(arguments: argparse.Namespace, found: config.Config) -> Printed:
    """A set of the operator's own rows, ready to be dispatched by the name that is printed. How the first row was read
    and will be asked stands on standard error, where nothing but the name is wanted."""
    name = arguments.name or arguments.file.name.partition(".")[0]
    manifest = prepare_own(name, arguments.file, found.data_dir, replace=arguments.replace, training=arguments.training)
    print("\n".join(_first_row(manifest.benchmark, found)), file=sys.stderr)
    return Printed([manifest.benchmark], msgspec.to_builtins(manifest))


def _first_row(name: str, found: config.Config) -> list[str]:
    """The first row as it was read, and as each kind asks it."""
    benchmark = _catalogue(found).load(name)
    (row,) = prepared_sets.load_rows(found.data_dir, benchmark, 1)
    lines = [f"the first row of {name}, as read:", safe_text(json.dumps(row, ensure_ascii=False, indent=2))]
    for kind in benchmark.kinds:
        (shown,) = show(benchmark, kind, found.data_dir, 1)
        lines += ["", f"as {kind} asks it (the answer that counts: {safe_line(shown['expected'])}):"]
        for stage in shown["stages"]:
            lines += [f"-- {stage['name']} ({stage['mode']}):", safe_text(stage["prompt"])]
    return lines


def _list(arguments: argparse.Namespace, found: config.Config) -> Printed:
    lines, rows, plain, catalogue = [], [], [], _catalogue(found)
    for name in catalogue.names():
        benchmark = catalogue.load(name)
        manifest = prepared_sets.read_manifest(found.data_dir, benchmark)
        state = "not prepared" if manifest is None else "built in" if benchmark.built_in else f"{manifest.rows} rows"
        there = "no" if manifest is None else "built in" if benchmark.built_in else "yes"
        usual = ", ".join([kind.name for kind in benchmark.kinds.values() if kind.default] or benchmark.kinds)
        use, mark = ("training", "training set: ") if benchmark.training else ("", "")
        lines.append(f"{name:<16} {state:<14} {usual:<40} {mark}{benchmark.title}")
        rows.append([name, there, str(manifest.rows if manifest else ""), usual, benchmark.title, use])
        plain.append(
            {
                "name": name,
                "version": benchmark.version,
                "domain": benchmark.domain,
                "title": benchmark.title,
                "licence": benchmark.licence,
                "kinds": list(benchmark.kinds),
                "rows": benchmark.rows,
                "built_in": benchmark.built_in,
                "schema_verified": benchmark.schema_verified,
                "training": benchmark.training,
                "manifest": msgspec.to_builtins(manifest),
            }
        )
    titles = ("name", "prepared", "rows", "kinds", "title", "use")
    return Printed(tab_lines.lines(titles, rows) if arguments.tabs else lines, plain)


def _label(arguments: argparse.Namespace, found: config.Config) -> Printed:
    """Labels of prepared rows, taken from a file."""
    from rwkv_data.labels.label_table import import_labels  # its readers load pyarrow

    benchmark = _catalogue(found).load(arguments.name)
    with Meter(quiet=arguments.json) as meter:
        made = import_labels(
            found.data_dir,
            benchmark,
            arguments.file,
            arguments.field,
            arguments.column,
            lambda rows: meter.show("rows", rows),
        )
    return Printed(label_lines(made.summary()), made.summary())


def _rows(arguments: argparse.Namespace, found: config.Config) -> Printed:
    """Rows of others that are kept for mixing: those of a file, or without one all that there are."""
    from rwkv_data.recipes.foreign import row_sets  # its readers load pyarrow

    if arguments.file is None:
        kept = row_sets.row_sets(found.data_dir)
    else:
        name = arguments.name or arguments.file.name.partition(".")[0].lower()
        with Meter(quiet=arguments.json) as meter:
            kept = [
                row_sets.keep(
                    name, arguments.file, found.data_dir, licence=arguments.licence, replace=arguments.replace,
                    report=lambda rows: meter.show("rows", rows),
                )
            ]  # fmt: skip
    plain = [msgspec.to_builtins(one) for one in kept]
    if arguments.tabs:
        if arguments.file is not None:
            print("\n".join(line for one in kept for line in _of_row_set(one)), file=sys.stderr)
        table = [[one.name, str(one.rows), "2" if one.pairs else "1", one.licence, one.source] for one in kept]
        return Printed(tab_lines.lines(("name", "rows", "answers", "licence", "source"), table), plain)
    lines = [line for one in kept for line in _of_row_set(one)]
    return Printed(lines or ["no rows are kept: `rwkvctl data rows FILE` keeps those of a file"], plain)


def _of_row_set(one: "RowSet") -> list[str]:
    what = several(one.rows, "pair" if one.pairs else "row")
    left_out = [f"  left out: {count:,} because {why}" for why, count in one.left_out.items()]
    licence = f", licence {one.licence}" if one.licence else ", licence not known"
    return [safe_line(f"{one.name}: {what} of {one.source}{licence}"), *left_out]


def _show(arguments: argparse.Namespace, found: config.Config) -> Printed:
    benchmark = _catalogue(found).load(arguments.name)
    kind = kind_of(benchmark, arguments.kind)
    settings = overrides.read(found.overrides_file, {benchmark.name: benchmark}, strict=False).settings(
        benchmark.name, kind
    )
    known, labels = facts(benchmark, kind.with_known_settings(settings)), list[StoredLabels]()
    if manifest := prepared_sets.read_manifest(found.data_dir, benchmark):
        labels = labels_of(found.data_dir, benchmark.name, manifest.sha256)
        known |= {"rows": manifest.rows, "source": manifest.source, "fields": manifest.fields}
        known["labels"] = [one.summary() for one in labels]
    shown = show(benchmark, kind.name, found.data_dir, arguments.count, settings)
    lines = _of_facts(known, settings, labels)
    for row in shown:
        lines.append(f"\n== row {row['row']} (of the {row['of']}), expected {safe_line(repr(row['expected']))}")
        for stage in row["stages"]:
            asked = {name: value for name, value in stage.items() if name not in {"prompt", "name", "mode"}}
            lines += [
                f"-- {stage['name']} ({stage['mode']}): {safe_line(json.dumps(asked, ensure_ascii=False))}",
                repr(stage["prompt"]) if arguments.raw else safe_text(stage["prompt"]),
            ]
    return Printed(lines, known | {"rows": shown})


def _of_facts(known: dict[str, Any], standing: dict[str, str], labels: list[StoredLabels]) -> list[str]:
    rows = known["rows"] or "an unknown number of"
    fields = ", ".join(f"{name} ({kind})" for name, kind in known.get("fields", {}).items())
    lines = [
        f"{known['name']}: {known['title']}; version {known['version']}, licence {known['licence']}",
        f"{rows} rows from {known['source']}" + ("" if known["schema_verified"] else "; schema unverified"),
        f"kind {known['kind']}, profile {known['profile']}; kinds: {', '.join(known['kinds'])}",
        f"grader {known['grader']}" + (f", judge {known['judge']}" if known["judge"] else ""),
        f"metrics {', '.join(known['metrics'])}",
        *(["a training set: it runs only when it is named"] if known["training"] else []),
        *([f"fields for where and order: {safe_line(fields)}"] if fields else []),
        *map(safe_line, _of_labels(labels)),
        "settings " + ", ".join(f"{name}={value}" for name, value in known["settings"].items()),
    ]
    if standing:
        lines.append(
            "of these from benchmarks.toml: " + ", ".join(f"{name}={value}" for name, value in standing.items())
        )
    return lines


def _of_labels(labels: list[StoredLabels]) -> Iterator[str]:
    """A line for each version; of those that are no newer ones of the same, the last few."""
    orders = [one for one in labels if one.labels.by_version is True]
    others = [one for one in labels if one.labels.by_version is not True]
    for one in [*others, *orders[-ORDERS_SHOWN:]]:
        made = one.labels
        what = f"{one.name} ({made.kind}), {made.labelled:,} of {made.rows:,} rows"
        day = time.strftime("%Y-%m-%d %H:%M", time.gmtime(one.published / 1e9))
        yield f"labels for where and order: {what}, {made.rule} from {made.source}, {day} UTC"
    if len(orders) > ORDERS_SHOWN:
        yield f"{len(orders) - ORDERS_SHOWN:,} older orders of rows are there, too"


def _diff(arguments: argparse.Namespace, found: config.Config) -> Printed:
    benchmark = _catalogue(found).load(arguments.name)
    lines = difference(benchmark, arguments.one, arguments.other, found.data_dir, arguments.row)
    return Printed([safe_text(line) for line in lines] or ["the prompts are the same"], lines)


def _sandbox(_arguments: argparse.Namespace, _found: config.Config) -> Printed:
    """Whether what models write can be run in isolation."""
    missing = sandbox.available()
    return Printed([missing or "every layer of the sandbox works"], {"works": not missing, "missing": missing})


def _decontaminate(arguments: argparse.Namespace, found: config.Config) -> Printed:
    """What is near a benchmark in a file. Where nothing is written, such rows are a failure, as for `rwkvctl gate`."""
    from rwkv_data.recipes.cleaning.decontaminate import (
        CleaningOrder,
        CleaningProgress,
        decontaminate,
    )  # loads numpy and pyarrow

    order = CleaningOrder(
        file=arguments.file,
        to=arguments.to,
        fields=arguments.field,
        require_checked=arguments.require_checked,
        replace=arguments.replace,
    )
    with Meter(quiet=arguments.json) as indexing, Meter(quiet=arguments.json) as comparing:
        progress = CleaningProgress(partial(_indexing, indexing), partial(_comparing, indexing, comparing))
        summary = decontaminate(order, _catalogue(found), found.data_dir, found.home / "cache", progress)
    return Printed(summary.lines(), summary.plain(), Exit.FAILED if summary.near and not arguments.to else Exit.OK)


def _write_rows(arguments: argparse.Namespace, _found: config.Config) -> Printed:
    """The rows that come on standard input, as a file with its lineage and its card."""
    from rwkv_data.recipes.files.piped_rows import written  # loads pyarrow

    if arguments.push_to_hub is not None:
        return _push_rows(arguments)
    done = written(sys.stdin.buffer, arguments.to, arguments.format, arguments.roles, replace=arguments.replace)
    return _of_written(done)


def _push_rows(arguments: argparse.Namespace) -> Printed:
    """The rows that come on standard input, as a folder that is then pushed to the hub. It ends when that is closed."""
    from rwkv_data.recipes.hub.pushing import PushOrder, written_and_pushed  # loads pyarrow and huggingface_hub

    quiet = arguments.json or not sys.stderr.isatty()
    order = PushOrder(arguments.push_to_hub, public=arguments.public, quiet=quiet)
    done = written_and_pushed(sys.stdin.buffer, arguments.to, arguments.format, order, replace=arguments.replace)
    lines, plain, _ = _of_written(done.files)
    visibility = "private" if done.private else "public"
    if arguments.public and done.private:
        lines.append(f"{done.repo} is private, and stays so: --public makes public only a repository that is new")
    verb = "pushed to" if done.changed else "already up to date:"
    lines.append(f"{verb} {done.url} ({visibility}), commit {done.commit}")
    pushed = {"repo": done.repo, "url": done.url, "commit": done.commit, "private": done.private}
    return Printed(lines, plain | {"pushed": pushed | {"created": done.created, "changed": done.changed}})


def _of_written(done: "WrittenFiles") -> Printed:
    files = [str(path) for path in (done.names.rows, done.names.lineage, done.names.card)]
    if done.kept:
        line = f"kept {done.names.rows}, which has exactly these {done.stamp.rows:,} rows"
    else:
        line = f"wrote {done.stamp.rows:,} rows to {' and '.join(files)}"
    return Printed([line], {"rows": done.stamp.rows, "files": files})


def _verify_rows(arguments: argparse.Namespace, _found: config.Config) -> Printed:
    """What is wrong with a file of training rows; whoever is on the other end of the pipe knows the grades."""
    from rwkv_data.recipes.files.piped_rows import Grades
    from rwkv_data.recipes.files.verify import verify  # loads pyarrow

    grades = Grades(sys.stdin.buffer, sys.stdout.buffer)
    problems = verify(arguments.file, grades.known)
    plain = {"samples": grades.asked, "problems": [{"line": one.line, "text": one.text} for one in problems]}
    return Printed([json.dumps(plain, ensure_ascii=False)], plain, Exit.FAILED if problems else Exit.OK)


def _indexing(meter: Meter, name: str, done: int, total: int) -> None:
    meter.show(f"benchmarks: {name}", done, total)


def _comparing(other: Meter, meter: Meter, done: int) -> None:
    other.clear()
    meter.show("rows", done)


def _shown(fetching: Meter, reading: Meter, progress: Progress) -> None:
    """How far a preparation is: bytes while something is fetched, then rows."""
    meter, other = (fetching, reading) if progress.step == "fetch" else (reading, fetching)
    size = f", {progress.bytes / 1e6:.1f} MB" if progress.bytes else ""
    other.clear()
    meter.show(f"{progress.step} {progress.name}{size}", progress.done, progress.total or 0)


def _catalogue(found: config.Config) -> registry.Catalogue:
    return registry.Catalogue(folder=found.benchmarks_dir, data_dir=found.data_dir)


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--home", type=Path, help="holds data/ (default: the configured home)")
    common.add_argument("--json", action="store_true", help="print JSON")
    parser = argparse.ArgumentParser(prog="python -m rwkv_data", description="Prepare and list benchmark rows.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    one = verbs.add_parser("prepare", parents=[common], help="fetch or read the rows of benchmarks")
    one.add_argument("names", nargs="*", help="without any: all but training sets")
    one.add_argument("--from", dest="source", type=Path, help="a local file or folder instead of the hub")
    one.add_argument("--pool", type=Path, help="a local file of few-shot examples")
    one.set_defaults(run=_prepare)
    own = verbs.add_parser("own", parents=[common], help="make a benchmark of rows of your own")
    own.add_argument("file", type=Path)
    own.add_argument("--name", default="", help="default: the file's name")
    own.add_argument("--replace", action="store_true", help="replace a set of that name that has other rows")
    own.add_argument("--training", action="store_true", help="rows to train on: the set runs only when it is named")
    own.set_defaults(run=_own)
    _add_rows(verbs.add_parser("rows", parents=[common], help="keep rows for mixing; without a file, list them"))
    _add_label(verbs.add_parser("label", parents=[common], help="take labels of rows from a file"))
    seen = verbs.add_parser("show", parents=[common], help="the first prompts, exactly as they are sent")
    seen.add_argument("name")
    seen.add_argument("kind", nargs="?", default="")
    seen.add_argument("--count", type=int, default=3)
    seen.add_argument("--raw", action="store_true", help="prompts as Python literals: every blank is seen")
    seen.set_defaults(run=_show)
    differ = verbs.add_parser("diff", parents=[common], help="how the prompts of two kinds differ")
    differ.add_argument("name")
    differ.add_argument("one")
    differ.add_argument("other")
    differ.add_argument("--row", type=int, default=0)
    differ.set_defaults(run=_diff)
    clean = verbs.add_parser("decontaminate", parents=[common], help="drop training rows that are near a benchmark")
    clean.add_argument("file", type=Path)
    clean.add_argument("--to", type=Path, help="the file to write; without it there is only a report")
    clean.add_argument("--field", nargs="+", default=[], help="the field or fields that hold the problem")
    clean.add_argument("--require-checked", action="store_true", help="refuse if a benchmark is not prepared")
    clean.add_argument("--replace", action="store_true", help="replace existing files")
    clean.set_defaults(run=_decontaminate)
    _add_write_rows(verbs.add_parser("write-rows", parents=[common], help="write the training rows on standard input"))
    verify = verbs.add_parser("verify-rows", parents=[common], help="compare training rows with lineage and grades")
    verify.add_argument("file", type=Path)
    verify.set_defaults(run=_verify_rows)
    verbs.add_parser("sandbox", parents=[common], help="whether the sandbox works here").set_defaults(run=_sandbox)
    listing = verbs.add_parser("list", parents=[common], help="all benchmarks")
    listing.add_argument("--tabs", action="store_true", help="tab-separated")
    listing.set_defaults(run=_list)
    return parser


def _add_rows(rows: argparse.ArgumentParser) -> None:
    rows.add_argument("--file", type=Path)
    rows.add_argument("--name", default="", help="default: the file's name")
    rows.add_argument("--licence", default="", help="their licence")
    rows.add_argument("--replace", action="store_true", help="replace rows of that name that are of another file")
    rows.add_argument("--tabs", action="store_true", help="tab-separated")
    rows.set_defaults(run=_rows)


def _add_write_rows(write: argparse.ArgumentParser) -> None:
    write.add_argument("--to", type=Path, required=True)
    write.add_argument("--format", required=True)
    write.add_argument("--roles", required=True)
    write.add_argument("--replace", action="store_true", help="replace existing files")
    write.add_argument("--push-to-hub", metavar="ORG/NAME", help="push the folder to this dataset repository, too")
    write.add_argument("--public", action="store_true", help="the repository may be public")
    write.set_defaults(run=_write_rows)


def _add_label(label: argparse.ArgumentParser) -> None:
    label.add_argument("name")
    label.add_argument("--from", dest="file", type=Path, required=True, help="the file")
    label.add_argument("--column", default="", help="the column that holds the labels (default: the field's name)")
    label.add_argument("--field", required=True, help="what the labels are called")
    label.set_defaults(run=_label)


if __name__ == "__main__":
    sys.exit(main())
