"""The filter flags that `queue` and `dispatch` share; they fill `rwkvctl.protocol.requests.Selection`."""

# ruff: noqa: RUF009 - `option` makes a dataclass field and nothing else

import dataclasses
import os
import re
from typing import Final, Literal

from rwkvctl.cli import checkpoint_paths
from rwkvctl.cli.client import Client, Record
from rwkvctl.cli.registry import option
from rwkvctl.protocol.errors import Exit, RefusedError, RwkvctlError
from rwkvctl.protocol.numerics import Numerics
from rwkvctl.settings.module_command import module_command
from rwkvctl.text.sanitize import safe_text

LONGEST_NOTE: Final = 500
LARGEST_ORDER: Final = 7 * 2**20
"""Bytes of an order of rows that fit into a request, as JSON."""
LONGEST_ROW_NAME: Final = 1000
ORDER_S: Final = 300.0


class SelectionError(RwkvctlError):
    """A filter flag has a value that cannot be used."""

    exit_code = Exit.USAGE


@dataclasses.dataclass(frozen=True)
class ModelFilters:
    """Which models are measured; without any of these, all in the weights folder."""

    models: list[str] = option(
        [], "models by name, pattern, or path of a checkpoint anywhere; `builtin` is the built-in one (default: all)"
    )
    model_regex: list[str] = option([], "only models whose file name matches one of these regular expressions")
    model_select: Literal["all", "param-extrema", "latest-data"] = option(
        "all", "all; the smallest and largest; or the newest data version of each size"
    )
    min_param_b: float | None = option(None, "only models with at least this many billion parameters")
    max_param_b: float | None = option(None, "only models with at most this many billion parameters")
    manifest: str = option("", "the checkpoints of a JSON file, a list of {path, name}, instead of the weights folder")


@dataclasses.dataclass(frozen=True)
class WorkFilters:
    """On which benchmarks models are measured, and what changes the work."""

    only_jobs: list[str] = option([], "only these kinds of a benchmark, as `rwkvctl benchmarks` lists them")
    skip_jobs: list[str] = option([], "leave out these kinds")
    job_order: list[str] = option([], "these kinds first, in this order")
    only_datasets: list[str] = option(
        [], "only these benchmarks, by name (default: all with rows but training sets)", "--benchmarks"
    )
    skip_datasets: list[str] = option([], "leave out these benchmarks")
    suite: str | None = option(
        None, "only what this suite of benchmarks.toml measures, with its settings; see `rwkvctl suites`"
    )
    profiles: list[str] = option([], "only kinds with these prompt profiles: rwkv-skills-v1, lm-eval, ...")
    rows: str = option("", "use a file of your own rows as the benchmark: questions with answers, or with choices")
    domains: list[str] = option([], "only these domains: multi_choice, free_response, code, ...")
    limit: int | None = option(
        None, "only the first N rows of each benchmark; the score is marked partial", "--max-samples"
    )
    set: list[str] = option([], "override a setting of the benchmark: name=value")
    seed: int | None = option(None, "seed of every random draw (default: the benchmark's own)")
    numerics: Numerics | None = option(None, "profile of the arithmetic (default: the daemon's setting)")
    overwrite: bool = option(False, "measure again even if there is a score: it becomes a new version, older ones stay")
    hold_missing: bool = option(
        False, "also queue benchmarks whose rows are missing; their jobs are held until the rows are prepared"
    )
    skip_missing_dataset: bool = option(
        False, "leave out benchmarks whose rows are missing (the default; a flag of rwkv-skills)"
    )
    priority: int | None = option(None, "jobs with a higher number start earlier (default: 0; those of a watch: -10)")
    group: str = option("", "the group of these jobs; [groups] in the configuration says how many of it run at once")
    note: str = option("", "a note on these jobs, which the job log shows")
    disable_checker: bool = option(False, "do not send wrong answers to the checker")


@dataclasses.dataclass(frozen=True)
class Filters(WorkFilters, ModelFilters):
    """Which models on which benchmarks, and what changes the work."""

    run_log_dir: str = option("", "also link the jobs' logs into this folder")
    harness: str = option("", "measure with this outside harness; --only-datasets names tasks of it then")


def body(filters: Filters, home: str = "", weights_dir: str = "") -> Record:
    """The Selection as JSON; what has its default is left out. Rows of one's own are prepared in the home first;
    checkpoints in the weights folder need not be named to the daemon as files."""
    check_models(filters)
    given: Record = {field.name: getattr(filters, field.name) for field in dataclasses.fields(ModelFilters)}
    given["models"], given["files"] = checkpoint_paths.split(filters.models, weights_dir)
    given["checkpoints"] = checkpoint_paths.of_manifest(path) if (path := given.pop("manifest")) else []
    given["harness"] = filters.harness
    if filters.harness and filters.rows:
        raise SelectionError("--rows and --harness cannot be combined: a harness has its own rows.")
    if filters.run_log_dir:
        given["run_log_dir"] = os.path.abspath(filters.run_log_dir)  # noqa: PTH100 - links stay as they were typed
    return said(given) | work(filters, home)


def work(filters: WorkFilters, home: str = "") -> Record:
    """The Selection as JSON, without models."""
    check_work(filters)
    if filters.rows:
        own = prepared(filters.rows, home)
        filters = dataclasses.replace(filters, rows="", only_datasets=[*filters.only_datasets, own])
    given: Record = {field.name: getattr(filters, field.name) for field in dataclasses.fields(WorkFilters)}
    del given["skip_missing_dataset"]
    given["settings"] = settings(given.pop("set"))
    return said(given)


def said(given: Record) -> Record:
    """Return what has not its default, and every number that was given."""
    defaults, numbers = Filters(), {"min_param_b", "max_param_b", "limit", "seed"}
    return {
        name: value
        for name, value in given.items()
        if (value is not None if name in numbers else value and value != getattr(defaults, name, {}))
    }


def prepared(file: str, home: str) -> str:
    """Return the name of the benchmark prepared from a file of rows; a data program started here prepares it."""
    import subprocess
    import sys

    words = module_command("rwkv_data", "own", file, "--home", home)
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        why = done.stderr.strip().removeprefix("rwkv_data: ") or "the rows cannot be read"
        raise SelectionError(f"--rows: {why} (`rwkvctl data own` has --name and --replace)")
    sys.stderr.write(safe_text(done.stderr))  # how the first row was read and will be asked, before anything is queued
    return done.stdout.strip()


def check_models(filters: Filters) -> None:
    """Raise SelectionError for models that the daemon would refuse, in terms of the flags."""
    for pattern in filters.model_regex:
        try:
            re.compile(pattern)
        except re.error as error:
            raise SelectionError(f"--model-regex '{pattern}' is not a valid regular expression: {error}.") from error
    low, high = filters.min_param_b, filters.max_param_b
    if low is not None and high is not None and low > high:
        raise SelectionError(f"--min-param-b {low:g} is above --max-param-b {high:g}: no model can match.")


def check_work(filters: WorkFilters) -> None:
    """Raise SelectionError for work that the daemon would refuse, in terms of the flags."""
    check_suite(filters.suite)
    if len(filters.note) > LONGEST_NOTE:
        raise SelectionError(f"--note may have {LONGEST_NOTE} characters; there are {len(filters.note):,}.")
    if filters.limit is not None and filters.limit < 1:
        raise SelectionError(f"--limit must be at least 1, is {filters.limit}.")
    if filters.hold_missing and filters.skip_missing_dataset:
        raise SelectionError("--hold-missing and --skip-missing-dataset cannot be combined.")


def check_suite(suite: str | None) -> None:
    """Raise SelectionError for an empty name, such as that of an unset variable: without a suite all is meant."""
    if suite is not None and not suite.strip():
        raise SelectionError("--suite: the name is empty; `rwkvctl suites` lists them.")


def check_daemon(client: Client, selection: Record) -> None:
    """Refuse a harness, a suite, a note or a watch's baseline if the daemon is too old to know them: it would ignore
    them, and measure something else."""
    if "harness" in selection:
        route, what = "/v1/harnesses", "harnesses"
    elif not selection.keys().isdisjoint({"suite", "note", "baseline"}):
        route, what = "/v1/suites", NO_SUITES
    else:
        return
    try:
        client.get(route)
    except RefusedError as error:
        raise (has_none(what) if error.code == "no-such-route" else error) from error


NO_SUITES: Final = "suites, notes and baselines"


def has_none(what: str) -> RefusedError:
    """Return the refusal of something that a daemon of an older version does not have."""
    text = f"The daemon runs an older version, which has no {what}."
    return RefusedError("no-such-route", text, "Restart it: `rwkvctl service restart`.", Exit.REFUSED)


def names_file(order: str) -> bool:
    """Whether a setting `order` names a file and no field: without quotes it has a folder or an ending."""
    return order[:1] not in {"'", '"'} and ("/" in order or "." in order)


def with_order_kept(client: Client, wanted: Record) -> Record:
    """Return a selection in which the file that its setting `order` names is replaced by its labels, which the daemon
    has made of it. Raises SelectionError, and RefusedError that names the lines that are wrong."""
    settings = wanted.get("settings", {})
    file = settings.get("order", "")
    if not names_file(file):
        return wanted
    if len(benchmarks := {*wanted.get("only_datasets", ())}) != 1:
        hint = "name it with --only-datasets, also beside a suite"
        raise SelectionError(f"--set order={file}: a file orders the rows of one benchmark; {hint}.")
    try:
        body = {"benchmark": benchmarks.pop(), "lines": lines_of(file)}
    except OSError as error:
        why = error.strerror or error
        hint = f"For a field of that name write order='\"{file}\"'; a name with a dot or a slash is a file."
        raise SelectionError(f"--set order={file}: the file cannot be read ({why}). {hint}") from error
    try:
        labels = client.post("/v1/orders", body, ORDER_S).value["name"]
    except RefusedError as error:
        if error.code != "bad-order":
            raise
        raise RefusedError(error.code, f"{file}: {error.detail}", error.hint, error.exit_code) from error
    return wanted | {"settings": settings | {"order": labels}}


def fits_request(lines: list[str]) -> bool:
    """Whether the lines of an order are few enough to be sent."""
    import json

    return len(json.dumps(lines)) <= LARGEST_ORDER


def lines_of(file: str) -> list[str]:
    """Return the lines of an order file. Raises SelectionError and OSError."""
    with open(file, "rb") as opened:  # noqa: PTH123 - pathlib would double the start-up of every verb
        raw = opened.read(LARGEST_ORDER + 1)
    try:
        lines = raw.decode("utf-8-sig").rstrip().split("\n") if len(raw) <= LARGEST_ORDER else []
    except UnicodeDecodeError as error:
        raise SelectionError(f"--set order={file}: the file is no UTF-8 text.") from error
    if not lines or not fits_request(lines):
        most = f"an order of over {LARGEST_ORDER >> 20} MiB as JSON is not sent"
        hint = "label the rows from a table (`rwkvctl data label --from`), and name the labels"
        raise SelectionError(f"--set order={file}: {most}; {hint}.")
    if (long := next((number for number, line in enumerate(lines, 1) if len(line) > LONGEST_ROW_NAME), 0)) > 0:
        beside = "; the file with the rates is no order" if lines[0].startswith("{") else ""
        raise SelectionError(f"--set order={file}: line {long} is too long for the name of a row{beside}.")
    return lines


def settings(pairs: list[str]) -> dict[str, str]:
    """Return `name=value` pairs as a dictionary. Raises SelectionError for one without a name or an equals sign."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise SelectionError(f"--set takes name=value, not '{pair}'.")
        found[name] = value
    return found
