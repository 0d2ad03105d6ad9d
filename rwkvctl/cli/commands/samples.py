"""`rwkvctl samples`: what a model was asked and what it answered, escaped."""

from rwkvctl.cli import long_reads
from rwkvctl.cli.client import Record, segment
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import Role, Terminal, joined
from rwkvctl.cli.tables import core_tables, sample_tables
from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.text.sanitize import cell_width, end_of_piece, safe_line, safe_text, take
from rwkvctl.text.shell_words import as_typed

OUTLINED = 50_000


class NoSampleError(RwkvctlError):
    """The job has no sample of that row and repeat."""

    exit_code = Exit.NOT_FOUND


@verb
def samples(  # noqa: PLR0913 - each is a flag
    context: Context, job: str, *, wrong: bool = False, reason: str = "", cut: bool = False, text: str = "",
    latest: bool = False, limit: int = 20, after: int = -1, full: bool = False,
) -> int:  # fmt: skip
    """Graded samples of a job: prompt, completion, extracted and expected answer, and the reason of the verdict.

    Text of models is shown with its control characters made visible; with --json it is raw. A row has its number in the
    job, and its name in brackets, which is the same in every job: the id it has upstream, else BENCHMARK/INDEX.

    job: the job's id
    wrong: only samples that do not count as right
    reason: only samples of this reason: right, wrong, no_answer, timeout, unjudged, error, form, unfaithful, dropped
    cut: only samples cut off by the token limit
    text: only samples with this text, in any case, in a prompt, a completion, the expected or the extracted answer
    latest: newest first
    limit: at most this many samples
    after: only samples after this number (the cursor that a full page names)
    full: whole texts; otherwise prompts and completions are cut to 12 lines

    $ rwkvctl samples j12 --wrong --limit 3
    $ rwkvctl samples j12 --json
    """
    narrowed = {"wrong": wrong or None, "reason": reason, "cut": cut or None, "text": text}
    place = {"latest": latest or None, "after": after}
    answer = long_reads.samples(context.client, job, narrowed | place, limit)
    items = answer.value["items"]
    if context.as_json or context.as_tabs or not items:
        none = "no sample matches" if any(narrowed.values()) else "no samples yet"
        context.show(answer, core_tables.sample_rows(items, none))
    else:
        for item in items:
            draw(context.terminal, item, 0 if full else 12)
    following = answer.value.get("next", -1)
    if following >= 0:
        given = narrowed | {"latest": latest, "full": full, "limit": str(limit), "after": str(following)}
        context.say(f"more samples: rwkvctl samples {job} {flags(given)}")
    return Exit.OK


def flags(given: dict[str, object]) -> str:
    """Return the given flags as typed, so that the next page continues with the same samples."""
    words = [word for name, said in given.items() if said for word in (f"--{name}", said) if word is not True]
    return as_typed(map(str, words))


@verb
def samples_counts(context: Context, job: str, *, subjects: bool = False) -> int:
    """Count the samples of a job by reason, or by subject.

    job: the job's id
    subjects: by subject, the worst first, where the benchmark has subjects

    $ rwkvctl samples counts j12 --subjects
    """
    counts: dict[tuple[str, str], int] = {}
    after, answer = -1, None
    while answer is None or after >= 0:
        query = {"after": after, "limit": OUTLINED, "subjects": subjects or None}
        answer = context.client.get(f"/v1/jobs/{segment(job)}/outline", **query)
        for key in sample_tables.outlined(answer.value):
            counts[key] = counts.get(key, 0) + 1
        after = answer.value.get("next", -1)
    context.show(answer, sample_tables.sample_counts(counts))
    return Exit.OK


@verb
def samples_same(context: Context, job: str, *, row: int, repeat: int = 0, limit: int = 50) -> int:
    """The same row of the same benchmark in other jobs, newest first.

    Jobs that picked other rows of the set (rows, where, part, share, days), or asked them in another order, number
    them otherwise and are left out.

    job: the job's id
    row: which row
    repeat: which repeat
    limit: at most this many jobs

    $ rwkvctl samples same j12 --row 77
    """
    answer = context.client.get(f"/v1/jobs/{segment(job)}/same", row=row, repeat=repeat, limit=limit)
    context.show(answer, sample_tables.same_samples(answer.value["items"]))
    return Exit.OK


@verb
def samples_exchange(context: Context, job: str, number: int) -> int:
    """The prompt to the judge for a sample, rebuilt from the row and the answer, and its replies.

    job: the job's id
    number: the sample's number, as `rwkvctl samples` shows it

    $ rwkvctl samples exchange j12 4711
    """
    answer = context.client.get(f"/v1/jobs/{segment(job)}/exchange", number=number)
    context.show(answer, sample_tables.exchange(answer.value))
    return Exit.OK


@verb
def samples_diff(context: Context, one: str, other: str, *, row: int = 0, repeat: int = 0) -> int:
    """How the prompts of two jobs differ for the same row, stage by stage, as they were sent.

    one: a job's id
    other: another job's id
    row: which row
    repeat: which repeat

    $ rwkvctl samples diff j12 j15 --row 3
    """
    import difflib

    samples = [sample_at(context, job, row, repeat) for job in (one, other)]
    if other_rows := rows_differ(row, {one: samples[0], other: samples[1]}):
        context.say(other_rows)
    before, after = map(prompts, samples)
    lines = list(difflib.unified_diff(before, after, one, other, lineterm="", n=2))
    if context.as_json:
        fields = {"one": one, "other": other, "row": row, "repeat": repeat, "same": not lines, "lines": lines}
        context.show_local("rwkvctl.samples-diff/1", fields)
        return Exit.OK
    for line in lines or ["the prompts are the same"]:
        context.terminal.line(safe_line(line))
    return Exit.OK


def sample_at(context: Context, job: str, row: int, repeat: int) -> Record:
    """Return one sample of a job. Raises NoSampleError if the job has none of that row and repeat."""
    place = row * 1048576 + repeat
    items = context.client.get(f"/v1/jobs/{segment(job)}/samples", limit=1, after=place - 1).value["items"]
    if not items or (items[0]["row"], items[0]["repeat"]) != (row, repeat):
        raise NoSampleError(f"{job} has no sample of row {row}, repeat {repeat}.")
    return dict(items[0])


def rows_differ(row: int, samples: dict[str, Record]) -> str:
    """Return a sentence if two jobs mean different rows by one number, as far as the names of rows are known."""
    names = {job: safe_line(sample["row_id"]) for job, sample in samples.items() if sample.get("row_id")}
    if len(names) < 2 or len({*names.values()}) == 1:
        return ""
    return f"these are different rows: row {row} is " + " and ".join(f"{name} in {job}" for job, name in names.items())


def prompts(sample: Record) -> list[str]:
    """Return the lines of the prompts of all stages, each stage under a line `== stage NAME`."""
    return [line for stage in sample["stages"] for line in (f"== stage {stage['stage']}", *stage["prompt"].split("\n"))]


def draw(terminal: Terminal, item: Record, longest: int) -> None:
    """Write one sample as a block of lines: its verdict, what was extracted and expected, and its stages."""
    value = item.get("value")
    role: Role = "warn" if value is None else "ok" if value >= 1 else "bad"
    mark = "–" if value is None else "✓" if value >= 1 else "✗" if value <= 0 else f"{value:.2f}"
    repeat = f" repeat {item['repeat']}" if item["repeat"] else ""
    name = f" ({safe_line(item['row_id'])})" if item.get("row_id") else ""
    title = f"{mark} row {item['row']}{name}{repeat} · {safe_line(item['reason'])} · sample {item['number']} "
    width = min(terminal.width, 120)
    terminal.line(title + "─" * max(0, width - cell_width(title)), role)
    extracted = item.get("extracted")
    field(terminal, "expected", item.get("expected", ""))
    field(terminal, "extracted", "nothing" if extracted is None else extracted)
    field(terminal, "rule", item.get("route", ""))
    field(terminal, "detail", item.get("detail", ""))
    parts = item.get("parts", {})
    field(terminal, "parts", " ".join(f"{name}={amount:g}" for name, amount in parts.items()))
    for reply in item.get("judge", {}).get("replies", ()):
        field(terminal, "judge", reply)
    for stage in item.get("stages", ()):
        draw_stage(terminal, stage, longest, width)
    terminal.line()


def field(terminal: Terminal, name: str, text: str) -> None:
    """Write a line with a name and a short text; write nothing if the text is empty."""
    if text:
        terminal.line(f"  {name:<10}{take(safe_line(text), 200)}")


def draw_stage(terminal: Terminal, stage: Record, longest: int, width: int) -> None:
    """Write prompt and completion of one stage, with their numbers of tokens and what ended the completion."""
    tokens = joined([f"{stage.get('prompt_tokens', 0):,} tokens in", f"{stage.get('generated_tokens', 0):,} out"])
    terminal.line(f"  prompt ({safe_line(stage['stage'])}, {tokens})", "dim")
    paragraph(terminal, stage["prompt"], longest, width)
    terminal.line(f"  completion (stopped by {safe_line(stage['stop'])})", "dim")
    paragraph(terminal, stage["completion"], longest, width)


def paragraph(terminal: Terminal, text: str, longest: int, width: int) -> None:
    """Return a text indented and folded; of a long one only the beginning and the end."""
    shown = [piece for line in safe_text(text).split("\n") for piece in fold(line.expandtabs(4), width - 6)]
    if longest and len(shown) > longest:
        half = longest // 2
        shown = [*shown[:half], f"… {len(shown) - 2 * half} more lines (--full shows them) …", *shown[-half:]]
    for line in shown:
        terminal.line(f"    │ {line}".rstrip())


def fold(line: str, width: int) -> list[str]:
    """Return a line cut into pieces of at most `width` terminal cells, or of one character that needs more."""
    pieces, start = list[str](), 0
    while start < len(line):
        end = max(end_of_piece(line, start, width), start + 1)
        pieces.append(line[start:end])
        start = end
    return pieces or [""]
