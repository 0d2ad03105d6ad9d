"""A file of scores: results of lm_eval, or CSV."""

# ruff: noqa: PTH118, PTH123, PTH207
# pathlib would double the start-up of every verb

import hashlib
import json
import os
from glob import escape, glob
from typing import Final, NamedTuple

from rwkvctl.cli.client import Record
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.score_files import csv_scores, lm_eval_results
from rwkvctl.cli.score_files.lm_eval_results import ResultsError
from rwkvctl.text.quantities import several

LARGEST: Final = 256 * 2**20
NAMED: Final = 8


class GivenFile(NamedTuple):
    """What a file says of one model: its scores as the daemon takes them, and what of it is left out, as sentences."""

    program: str
    sha256: str
    scores: list[Record]
    left_out: list[str]


def read(path: str, model: str) -> GivenFile:
    """Return the scores of a model that a file has. Raises UsageError that names the file, and the line if it has
    one."""
    raw = contents(path)
    digest = hashlib.sha256(raw).hexdigest()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no UTF-8 text; a spreadsheet has to save it as CSV UTF-8.") from error
    if not text.strip():
        raise UsageError(f"{path} is empty.")
    if text.lstrip().startswith(("{", "[")):
        scores, left_out = of_lm_eval(path, text)
        return GivenFile("lm_eval", digest, scores, left_out)
    scores, others = csv_scores.read(path, text, model)
    left = [f"{several(len(others), 'other model')} in the file: {', '.join(others[:NAMED])}"] if others else []
    return GivenFile("csv", digest, scores, left)


def contents(path: str) -> bytes:
    """Return the contents of a file. Raises UsageError for one that cannot be read, or is too large for one."""
    try:
        with open(path, "rb") as file:
            raw = file.read(LARGEST + 1)
    except IsADirectoryError as error:
        found = sorted(glob(os.path.join(escape(path), "**", "results_*.json"), recursive=True))
        raise UsageError(f"{path} is a folder; name a file of it{': ' + found[-1] if found else ''}.") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    if len(raw) > LARGEST:
        raise UsageError(f"{path} has more than {LARGEST // 2**20} MiB: it is no file of scores.")
    return raw


def of_lm_eval(path: str, text: str) -> tuple[list[Record], list[str]]:
    """Return the scores of a results file of lm_eval, and what of it is left out. Raises UsageError."""
    try:
        found, left_out = lm_eval_results.numbers(json.loads(text))
    except (ValueError, RecursionError) as error:
        hint = "; of lm_eval's files, results_*.json has the scores" if path.endswith(".jsonl") else ""
        raise UsageError(f"{path} is no readable JSON ({error}){hint}.") from error
    except ResultsError as error:
        raise UsageError(f"{path}: {error}") from error
    if not found:
        raise UsageError(f"{path} has no score that could be taken: {'; '.join(left_out)}.")
    scores: list[Record] = [
        {"benchmark": one.benchmark, "kind": one.kind, "metric": one.metric, "value": one.value, "n": one.n,
         "shots": one.shots, "place": f"{path}: {one.task}"}
        for one in found
    ]  # fmt: skip
    return scores, left_out
