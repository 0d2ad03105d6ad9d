"""`rwkvctl export`: scores and samples for other programs."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from rwkvctl.cli.client import Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import option, verb
from rwkvctl.export import jsonl, lm_eval, source, tabular
from rwkvctl.export.output import whole_file
from rwkvctl.export.source import ScoreFilters
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.text.quantities import several

Form = Literal["csv", "markdown", "jsonl", "lm-eval", "emoji-chat"]


@dataclass(frozen=True)
class ExportFilters:
    """Flags of `rwkvctl export` that select the scores to write."""

    model: str = option("", "only this model")
    benchmark: str = option("", "only this benchmark")
    session_id: str = option("", "only the scores of this session")
    all_versions: bool = option(False, "every version, not only the newest")


@verb
def export(
    context: Context, which: ExportFilters, *, format_: Form | None = None, samples: bool = False, to: str = "",
    force: bool = False,
) -> int:  # fmt: skip
    """Scores as CSV, Markdown, JSON lines or lm_eval's files; samples as JSON lines or chats.

    Scores come with counts, intervals, warnings and the keys of their
    provenance; csv has a line for each metric. With --samples
    the samples of those scores are written: as JSON lines, or beside the
    results in lm-eval's shape. emoji-chat writes each sample as the list of
    {"😺": prompt}, {"🤖": completion} that rwkv-skills' data lake takes.

    lm-eval writes a folder for each model, as lm_eval 0.4.13 does, so it needs
    --to. Kinds that repeat a task of lm_eval have its name and keys (gsm8k,
    "exact_match,strict-match"); a name that not every file system keeps apart
    from all others (upper case, marks, length) gets a part of its hash.

    A file is written completely or not at all, and never over an existing one.
    Text that a spreadsheet would compute gets an apostrophe in front; control
    characters are escaped, in JSON as JSON does.

    format_: csv unless given; jsonl with --samples
    samples: export the samples of these scores
    to: the file to write (lm-eval: the folder); standard output without it
    force: replace an existing file

    $ rwkvctl export --to scores.csv
    $ rwkvctl export --format markdown --benchmark gsm8k
    $ rwkvctl export --samples --session-id 20261122_101500_ab12 --to samples.jsonl
    $ rwkvctl export --format lm-eval --samples --to lm_eval_results
    """
    form = format_ or ("jsonl" if samples or (context.as_json and not to) else "csv")
    check(form, samples=samples, to=to)
    wanted = ScoreFilters(which.model, which.benchmark, which.session_id, which.all_versions)
    found = some(source.scores(context.client, wanted))
    if form == "lm-eval":
        scores = list(found)
        kept = [score for score in scores if lm_eval.is_exported(score)]
        if left := len(scores) - len(kept):
            context.say(f"left out: {several(left, 'score')} given without samples")
        written = write_lm_eval(context, Path(to), kept, samples=samples, force=force)
    else:
        written = [to] if to else []
        write(context, lines(context, form, found, samples=samples), to, force=force)
    if to:
        context.show_local(
            "rwkvctl.export/1", {"format": form, "files": written}, headline=["wrote " + ", ".join(written)]
        )
    return Exit.OK


def check(form: Form, *, samples: bool, to: str) -> None:
    """Raise UsageError for flags that do not go together."""
    if samples and form in {"csv", "markdown"}:
        raise UsageError(f"--samples are written as jsonl, lm-eval or emoji-chat, not as {form}.")
    if form == "lm-eval" and not to:
        raise UsageError("--format lm-eval writes a folder of files: name it with --to.")


def some(scores: Iterator[Record]) -> Iterator[Record]:
    """Yield the scores. Raises RefusedError if there is none, because an empty file would look like a result."""
    first = next(scores, None)
    if first is None:
        raise RefusedError("no-such-score", "No score matches.", "`rwkvctl scores` lists all scores.", Exit.NOT_FOUND)
    return chain([first], scores)


def lines(context: Context, form: Form, scores: Iterator[Record], *, samples: bool) -> Iterator[str]:
    """Return the lines of the output file in the format `form`; scores are fetched as they are written."""
    if form == "csv":
        return tabular.csv_lines(scores)
    if form == "markdown":
        return tabular.markdown_lines(scores)
    if form == "jsonl" and not samples:
        return jsonl.score_lines(scores)
    return (line for score in scores for line in lines_of_samples(context, form, score))


def lines_of_samples(context: Context, form: Form, score: Record) -> Iterator[str]:
    """Return the samples of one score as lines of `emoji-chat` or of JSON."""
    found = source.samples(context.client, score["job"])
    return jsonl.chat_lines(found) if form == "emoji-chat" else jsonl.sample_lines(score, found)


def write(context: Context, text: Iterator[str], to: str, *, force: bool) -> None:
    """Write the lines to a file, or to standard output, with control characters escaped if that is a terminal."""
    if not to:
        for line in text:
            context.terminal.json(line)
        return
    with whole_file(Path(to), force=force) as file:
        file.writelines(text)


def write_lm_eval(context: Context, folder: Path, scores: list[Record], *, samples: bool, force: bool) -> list[str]:
    """Write a folder per model as lm_eval does, and return the paths of the files."""
    rows = {
        item["name"]: item["rows"] for item in context.client.get("/v1/benchmarks").value["items"] if item.get("rows")
    }
    written: list[str] = []
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime())
    for model in dict.fromkeys(score["model"] for score in scores):
        own = [score for score in scores if score["model"] == model]
        tasks = dict(zip(lm_eval.task_names(own), own, strict=True))
        place = folder / lm_eval.folder_of(model)
        place.mkdir(parents=True, exist_ok=True)
        for task, score in tasks.items() if samples else ():
            path = place / f"samples_{task}_{stamp}.jsonl"
            with whole_file(path, force=force) as file:
                file.writelines(lm_eval.sample_lines(score, source.samples(context.client, score["job"])))
            written.append(str(path))
        path = place / f"results_{stamp}.json"
        with whole_file(path, force=force) as file:
            file.write(jsonl.line(lm_eval.results(model, tasks, rows, time.time())))
        written.append(str(path))
    return written
