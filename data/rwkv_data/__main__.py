"""`python -m rwkv_data prepare NAME [--from PATH]`, `list` and `show NAME [KIND]`, each with [--home DIR] [--json].

Without --home the configuration decides where data lies. Exit codes are those of `rwkvctl.protocol.errors.Exit`; one
line on standard error says what went wrong.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rwkv_data import registry, sets
from rwkv_data.prepare import prepare
from rwkv_data.show import show
from rwkvctl import config
from rwkvctl.protocol.errors import RwkvctlError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb."""
    arguments = _parser().parse_args(argv)
    try:
        lines, plain = arguments.run(arguments)
    except RwkvctlError as error:
        print(f"rwkv_data: {error}", file=sys.stderr)
        return int(error.exit_code)
    print(json.dumps(plain, ensure_ascii=False) if arguments.json else "\n".join(lines))
    return 0


def _prepare(arguments: argparse.Namespace) -> tuple[list[str], Any]:
    data_dir = _data_dir(arguments)
    manifest = prepare(arguments.name, data_dir, arguments.source)
    rows = f"{manifest.rows} rows" if manifest.complete else f"{manifest.rows} of {manifest.rows_complete} rows"
    where = sets.rows_path(data_dir, arguments.name)
    line = f"{manifest.benchmark}: {rows} from {manifest.source} in {where} (sha256 {manifest.sha256[:12]})"
    return [line], msgspec.to_builtins(manifest)


def _list(arguments: argparse.Namespace) -> tuple[list[str], Any]:
    lines, plain, data_dir = [], [], _data_dir(arguments)
    for name in registry.names():
        benchmark, manifest = registry.load(name), sets.read_manifest(data_dir, name)
        state = "not prepared" if manifest is None else "built in" if benchmark.built_in else f"{manifest.rows} rows"
        lines.append(f"{name:<16} {state:<14} {', '.join(benchmark.kinds):<20} {benchmark.title}")
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
                "manifest": msgspec.to_builtins(manifest),
            }
        )
    return lines, plain


def _show(arguments: argparse.Namespace) -> tuple[list[str], Any]:
    benchmark = registry.load(arguments.name)
    kind = benchmark.kinds.get(arguments.kind, benchmark.default_kind)
    lines = [
        f"{benchmark.name}: {benchmark.title}; version {benchmark.version}, licence {benchmark.licence}",
        f"kind {kind.name}, {kind.profile}/{kind.profile_version}, grader {kind.grader.name}, k {kind.repeats}",
    ]
    shown = show(arguments.name, arguments.kind, _data_dir(arguments))
    for row in shown:
        lines.append(f"\n== row {row['row']} (of the {row['of']}), expected {row['expected']!r}")
        for stage in row["stages"]:
            asked = {name: value for name, value in stage.items() if name not in {"prompt", "name", "mode"}}
            lines += [
                f"-- {stage['name']} ({stage['mode']}): {json.dumps(asked, ensure_ascii=False)}",
                repr(stage["prompt"]),
            ]
    return lines, {"name": benchmark.name, "kind": kind.name, "version": benchmark.version, "rows": shown}


def _data_dir(arguments: argparse.Namespace) -> Path:
    """HOME/data where a home is given, else what the configuration says."""
    return arguments.home / "data" if arguments.home else config.load().data_dir


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--home", type=Path, help="holds data/ (default: the configured home)")
    common.add_argument("--json", action="store_true", help="print JSON")
    parser = argparse.ArgumentParser(prog="python -m rwkv_data", description="Prepare and list benchmark rows.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    one = verbs.add_parser("prepare", parents=[common], help="fetch or read the rows of a benchmark")
    one.add_argument("name")
    one.add_argument("--from", dest="source", type=Path, help="a local file or folder instead of the hub")
    one.set_defaults(run=_prepare)
    seen = verbs.add_parser("show", parents=[common], help="the first prompts, exactly as they are sent")
    seen.add_argument("name")
    seen.add_argument("kind", nargs="?", default="")
    seen.set_defaults(run=_show)
    verbs.add_parser("list", parents=[common], help="all benchmarks").set_defaults(run=_list)
    return parser


if __name__ == "__main__":
    sys.exit(main())
