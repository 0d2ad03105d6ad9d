"""`rwkvctl data prepare`, `data own`, `data rows`, `data label` and `data list`: run by the program of rwkv_data, but
for labels that are made of the samples of jobs or by the writer, which the daemon has."""

# ruff: noqa: RUF009 - `option` makes a dataclass field and nothing else

import dataclasses
from typing import Final, NoReturn

from rwkvctl.cli.confirm import named
from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import as_owner, become
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import option, verb
from rwkvctl.cli.render import LONGEST
from rwkvctl.cli.selection import settings
from rwkvctl.cli.tables.judge_tables import paid_line
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.label_lines import label_lines, labelling_lines
from rwkvctl.text.sanitize import fit, safe_line
from rwkvctl.text.shell_words import as_typed

OF_FILE: Final = "difficulty"
LABELS_S: Final = 300.0
"""Of a million samples the verdicts are read."""
OF_JOBS: Final = "difficulty-by-pass-rate"


@dataclasses.dataclass(frozen=True, slots=True)
class ByWriter:
    """Labels that the writer gives: by which rule, and of which rows."""

    rule: str = option("", "how the writer labels them: difficulty")
    set: list[str] = option([], "with --rule, which rows: rows=0:20000, where='source=olympiads'")
    limit: int | None = option(None, "with --rule, the most rows that are asked")
    check: bool = option(False, "with --rule, say how many rows would be asked and what that costs; change nothing")


@verb
def data_prepare(context: Context, names: list[str] = [], *, from_: str = "", pool: str = "") -> NoReturn:  # noqa: B006
    """Prepare the rows of benchmarks, from your files or by download; without a name, of all but training sets.

    names: the benchmarks; a training set is prepared only when it is named
    from_: a folder or file that holds the raw rows
    pool: a file of few-shot examples, where it lies apart from the rows

    $ rwkvctl data prepare gsm8k mmlu
    $ rwkvctl data prepare gsm8k --from ~/datasets/gsm8k
    $ rwkvctl data prepare numina_math numina_amc_aime numina_olympiads
    """
    as_owner(context.config.data_dir, as_typed(["data", "prepare", *names, *(["--from", from_] if from_ else [])]))
    source = ["--from", from_] if from_ else []
    become("rwkv_data", "prepare", *names, *source, *(["--pool", pool] if pool else []), *common(context))


@verb
def data_own(context: Context, file: str, *, name: str = "", replace: bool = False, training: bool = False) -> NoReturn:
    """Make a benchmark from your own rows: questions with answers, or with choices and the letter of the right one.

    The name for dispatching goes to standard output. The first row, as it was read
    and as the prompt, is shown on standard error: check it.

    file: JSON lines, a JSON list, csv or parquet
    name: its name, after `own_` (default: the file's name)
    replace: replace a set of that name that has other rows
    training: rows to train on: the set runs only when it is named, and its scores are in no matrix and no report

    $ rwkvctl data own ~/sums.jsonl
    $ rwkvctl dispatch --only-datasets own_sums
    """
    as_owner(context.config.data_dir, as_typed(["data", "own", file]))
    named = ["--name", name] if name else []
    marks = [*(["--replace"] if replace else []), *(["--training"] if training else [])]
    become("rwkv_data", "own", file, *named, *marks, *common(context))


@verb
def data_rows(
    context: Context, file: str = "", *, name: str = "", licence: str = "", replace: bool = False
) -> NoReturn:
    """Keep conversations or pairs of your own, to mix them with the rows of recipes; without a file, list those kept.

    What a row may be: `messages` or `conversations` (ShareGPT), with or without
    `system`; `prompt` and `completion`; `instruction`, `input` and `output`; `text` as
    "User: ...", a blank line, "Assistant: ..."; or `chosen` and `rejected`, two answers
    to one of these or two whole conversations. The first row decides which. Rows that
    cannot be trained on are left out, and counted by reason.

    A recipe mixes them by their name: `[[mix]]` with `rows = "chat"`, see
    `rwkvctl help recipe run`. They are compared with benchmarks when they are mixed.

    file: JSON lines, a JSON list, csv with a header, or parquet
    name: what the rows are called (default: the file's name)
    licence: under which licence they are: it stands on the cards of files that have them
    replace: replace rows of that name that are of another file; or read the same file again

    $ rwkvctl data rows ~/chat.jsonl --licence "CC BY 4.0"
    $ rwkvctl data rows
    """
    if not file and (name or licence or replace):
        raise UsageError("rwkvctl data rows: --name, --licence and --replace belong to a file.")
    words = ["--name", name] if name else []
    words += ["--licence", licence] if licence else []
    words += ["--replace"] if replace else []
    if file:
        as_owner(context.config.data_dir, as_typed(["data", "rows", file, *words]))
        words.append(f"--file={file}")
    become("rwkv_data", "rows", *words, *(["--tabs"] if context.as_tabs else []), *common(context))


@verb
def data_label(
    context: Context, name: str, by_writer: ByWriter, *, from_: str = "", jobs: list[str] = [],  # noqa: B006
    column: str = "", field: str = "",
) -> int:  # fmt: skip
    """Give the rows of a set labels, such as a difficulty, for `--set where=...` and `order=...`.

    From a file: JSON lines, a JSON list, csv or parquet with a row for each label. The
    set's row is found by a column `row` (its name in samples and exports, or else its
    index), else by the problem itself (blanks do not matter), else by an id. A row
    without a value, or with several that differ, gets no label; nor does -1.

    From finished jobs: difficulty-by-pass-rate, 10 - 9 x the share of right samples
    among those with a verdict. 10: none is right, 1: all are. Samples of several jobs
    count together.

    By the writer, the model of the table [writer] in config.toml: --rule difficulty asks
    it of each row how difficult the problem is, from 1 to 10 on the scale of contests,
    as a job that can be paused, stopped and resumed as any other. When that is done, its
    labels are published with those of earlier labellings of the same rows. A row that
    was asked before is not paid again.

    Labels of another content under the same name do not replace the older ones:
    `where` means the newest, and each job keeps those that it was dispatched with
    (difficulty@1a2b3c4d). `rwkvctl benchmarks show NAME` lists them. They belong to the
    rows as they are prepared now.

    name: the benchmark or training set
    from_: the file
    jobs: ids of finished jobs that asked its rows
    column: of the file, the column that holds the labels (default: the one called as the field)
    field: what the labels are called (default: difficulty, and difficulty-by-pass-rate of jobs)

    $ rwkvctl data label numina_math --from labels.parquet --column gpt_difficulty_parsed
    $ rwkvctl data label numina_math --jobs j81
    $ rwkvctl data label numina_math --rule difficulty --set where='source=olympiads' --check
    $ rwkvctl dispatch --only-datasets numina_math --set where='difficulty>=4 difficulty<=9'
    """
    if [bool(from_), bool(jobs), bool(by_writer.rule)].count(True) != 1:
        raise UsageError("rwkvctl data label: name a file (--from), finished jobs (--jobs), or a rule (--rule).")
    if column and not from_:
        raise UsageError("rwkvctl data label: --column belongs to --from.")
    if not by_writer.rule and by_writer != ByWriter():
        raise UsageError("rwkvctl data label: --set, --limit and --check belong to --rule.")
    if from_:
        label_by_file(context, name, from_, column, field or OF_FILE)
    if by_writer.rule:
        return label_by_writer(context, name, by_writer, field)
    body = {"benchmark": name, "jobs": named(jobs), "field": field or OF_JOBS}
    answer = context.client.post("/v1/labels", body, LABELS_S)
    context.show(answer)
    for line in [] if context.as_json else label_lines(answer.value):
        context.terminal.line(fit(safe_line(line), LONGEST))
    return Exit.OK


def label_by_writer(context: Context, name: str, asked: ByWriter, field: str) -> int:
    """Have the writer label rows, or say what that would be."""
    body: dict[str, object] = {"benchmark": name, "rule": asked.rule, "field": field, "settings": settings(asked.set)}
    if asked.limit is not None:
        body["limit"] = asked.limit
    if asked.check:
        answer = context.client.post("/v1/labellings", body | {"check": True}, LABELS_S)
    else:
        answer = context.change("/v1/labellings", body, LABELS_S)
    context.show(answer)
    if not context.as_json:
        for line in labelling_lines(answer.value, check=asked.check):
            context.terminal.line(fit(safe_line(line), LONGEST))
        for item in filter(None, [answer.value.get("paid")]):
            context.say(paid_line(item))
    return Exit.OK


def label_by_file(context: Context, name: str, file: str, column: str, field: str) -> NoReturn:
    """Have the program of rwkv_data take labels from a file."""
    words = ["--from", file, "--field", field, *(["--column", column] if column else [])]
    as_owner(context.config.data_dir, as_typed(["data", "label", name, *words]))
    become("rwkv_data", "label", name, *words, *common(context))


@verb
def data_list(context: Context) -> NoReturn:
    """Which rows are prepared, where they came from, their licences, and which sets are there to train on.

    $ rwkvctl data list
    """
    become("rwkv_data", "list", *(["--tabs"] if context.as_tabs else []), *common(context))


def common(context: Context) -> list[str]:
    """Return the flags for the program of rwkv_data: the home, and whether JSON is wanted."""
    return ["--home", str(context.config.home), *(["--json"] if context.as_json else [])]
