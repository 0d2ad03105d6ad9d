"""One job in lines: its progress, its score so far, what works on it, what is wrong, and what it writes now. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rwkvctl.cli.render import MARKS, share
from rwkvctl.protocol.record import ReproReply
from rwkvctl.protocol.replies import JudgeReply, NowReply, SoFarReply
from rwkvctl.protocol.states import ACTIVE, REASONS
from rwkvctl.protocol.views import EngineView, JobView
from rwkvctl.text.quantities import bar, count, duration, percent
from rwkvctl.text.sanitize import cell_width, safe_line, safe_text, take
from rwkvctl.text.shell_words import as_typed
from rwkvctl.tui.daemon.state import ConsoleState, seconds
from rwkvctl.tui.jobs.columns import done_share, score_of, score_value
from rwkvctl.tui.node.device_columns import Device, device_of, figure, gib, index
from rwkvctl.tui.samples.columns import asked
from rwkvctl.tui.shell.status_line import thousands
from rwkvctl.tui.widgets.chart import spark
from rwkvctl.tui.widgets.strips import Pieces, wrapped

REMEDIES: Final[Mapping[str, str]] = {
    "infrastructure": "the machine failed, not the job: press e to retry; finished samples are kept",
    "model": "the checkpoint: check the engine's log (l) and `rwkvctl weights verify`; then press e",
    "benchmark": "its rows, settings or grader: check log (l) and settings (c); then press e, or dispatch again",
    "judge": "all samples are generated, but the judge gave no verdict: check Judge (9); then press e",
}
"""What a failed job's class of failure asks for."""

SHOWN: Final = 40
"""Cells of a bar on a wide terminal."""


def head(job: JobView, now: float) -> Pieces:
    """Return which job this is, its state and since when."""
    mark, role = MARKS.get(job.state, ("?", "warn"))
    began, ended = seconds(job.started), seconds(job.finished)
    lasted = f" {duration((ended or now) - began)}" if began else ""
    rest = f"   version {job.version}   priority {job.priority}   {job.numerics}   session {job.session}"
    tried = f"   attempt {job.attempt}" if job.attempt > 1 else ""
    return [
        (f" {job.id} ", "bold"), (f" {job.model} × {job.benchmark} {job.kind}  ", ""),
        (f" {mark} {job.state}{lasted}", role), (tried, "warn"), (rest, "dim"),
    ]  # fmt: skip


def progress(job: JobView, width: int) -> Pieces:
    """Return samples done and in all, their rate, and the expected end."""
    if not job.total:  # of an outside harness, which alone knows how many rows there are
        return [(" samples  ", "dim"), ("not counted yet", "")]
    rate = f"  {job.samples_per_s:,.1f}/s" if job.samples_per_s else ""
    eta = f"  ETA {duration(job.eta_s)}" if job.eta_s is not None else ""
    idle = f"  no progress for {duration(job.idle_s)}" if job.idle_s is not None else ""
    long = max(10, min(SHOWN, width - 50))
    told = f"  {job.done:,}/{job.total:,}  {percent(done_share(job), 1)} %{rate}{eta}"
    return [(" samples  ", "dim"), (bar(done_share(job), long), "ok"), (told, ""), (idle, "warn")]


def stages(job: JobView, judge: JudgeReply | None = None) -> Pieces:
    """Return the progress of each stage of the job."""
    part = percent(share(job.stages_done, job.stages_total), 0)
    told = f"completions {job.stages_done:,}/{job.stages_total:,} {part} %   " if job.stages_total else ""
    limit = f"   first {job.limit:,} rows only" if job.limit else ""
    limit += f"   rows picked by {safe_line(job.picks)}" if job.picks else ""
    return [(" stages   ", "dim"), (f"{told}graded {job.done:,}{judged(job, judge)}", ""), (limit, "warn")]


def judged(job: JobView, judge: JudgeReply | None) -> str:
    """Return the counts of judged and waiting samples, and why the judge does not go on, if so; empty without a
    judge."""
    found = next((one for view in (judge.judges if judge else ()) for one in view.jobs if one.job == job.id), None)
    if found is None:
        return ""
    return f"   judge {found.judged:,} done, {found.waiting:,} waiting{': ' + found.parked if found.parked else ''}"


def score(job: JobView, before: SoFarReply | None) -> Pieces:
    """Return the score, final or so far, beside the last run's score on the same rows."""
    so_far = " so far" if job.score is None and score_value(job) is not None else ""
    found: list[tuple[str, str]] = [(" score    ", "dim"), (score_of(job), "bold"), (so_far, "dim")]
    found += [(f"   {word}", role) for word, role in counted(job)]
    if before is None or before.difference is None or before.difference.value is None:
        return [*found, (f"   {before.note}" if before and before.note else "", "dim")]
    delta = 100 * before.difference.value
    sign, role = ("▲", "ok") if delta > 0 else ("▼", "bad") if delta < 0 else ("=", "")
    shown = role if before.p is not None and before.p < 0.05 else ""
    whose = "" if before.model == job.model else f" ({before.model})"
    differs = f"  ~ another {', '.join(before.differs)}" if before.differs else ""
    return [
        *found, (f"   same {before.rows:,} rows in {before.other}{whose} {percent(before.before)} ", ""),
        (f" {sign} {delta:+.1f}", shown), (f" p={before.p:.2g}" if before.p is not None else "", ""), (differs, "warn"),
    ]  # fmt: skip


def counted(job: JobView) -> Iterator[tuple[str, str]]:
    """Return the counts that qualify a score."""
    known = job.score
    if known is not None:
        for number, word in ((known.truncated, "cut off"), (known.no_answer, "no answer"), (known.errors, "errors"),
                             (known.unjudged, "unjudged")):  # fmt: skip
            if number:
                yield f"{number:,} {word}", "warn" if word in {"errors", "unjudged"} else ""


def engine(job: JobView, state: ConsoleState) -> list[Pieces]:
    """Return the engine, batch, speed and device of a job that runs."""
    found = state.engines.get(job.engine) if job.state in ACTIVE else None
    if found is None:
        return []
    lease = state.leases.get(found.lease)
    return [
        [(" engine   ", "dim"), (speed(found), "")],
        *([device(device_of(lease, state))] if lease and lease.utilisation is not None else []),
    ]


def speed(found: EngineView) -> str:
    """Return an engine's batch, its decode and prefill speed, and its cache hit rate in one line."""
    looked_up = found.cache_hits + found.cache_misses
    cached = f"   cache {percent(found.cache_hits / looked_up, 0)} %" if looked_up else ""
    decode, prefill = thousands(found.decode_tokens_per_s), thousands(found.prefill_tokens_per_s)
    batch = f"batch {found.running}/{found.slots}"
    return f"{found.id} {found.state}   {batch}   decode {decode}   prefill {prefill} tok/s{cached}"


def device(row: Device) -> Pieces:
    """Return a device's utilisation now and lately, memory in GiB, power and temperature in one line."""
    lease = row.lease
    power = f"   {figure(lease.power_w)} W   {figure(lease.temperature_c)} °C" if lease.power_w is not None else ""
    return [
        (" device   ", "dim"), (f"{index(row)}   {percent(lease.utilisation, 0)} % ", ""),
        (spark(row.uses, 16), "info"), (f"   {gib(row)} GiB{power}", ""),
    ]  # fmt: skip


def trouble(job: JobView) -> list[Pieces]:
    """Return why a job waits or why it ended, and the remedy; empty if nothing is wrong."""
    if job.failure:
        words = REMEDIES.get(job.failure, "")
        return [
            [(" ✗ failed ", "bad"), (f"{job.failure}: {job.detail}", "")],
            [(" remedy   ", "dim"), (words, "")],
        ]
    meaning = next((words for name, words in REASONS.items() if name == job.reason), "")
    if not job.reason and not job.detail:
        return []
    role = "warn" if job.state == "held" else "dim"
    return [[(" why      ", role), (f"{job.reason}: " if job.reason else "", "bold"),
             (" · ".join(dict.fromkeys(filter(None, [job.detail, meaning]))), "")]]  # fmt: skip


def now_title(reply: NowReply | None, *, frozen: bool) -> Pieces:
    """Return the title of the panel of current generation: row, repeat, stage and tokens of the sample shown."""
    if reply is None or not reply.count:
        return [("Now generating", "title"), (f"  {reply.note}" if reply and reply.note else "", "dim")]
    repeat = f" repeat {reply.repeat}" if reply.repeat else ""
    return [
        ("Now generating", "title"), (f"  row {reply.row}{repeat}  {reply.stage}", "bold"),
        (f"  {reply.tokens:,} of at most {count(reply.max_tokens)} tokens  ", ""),
        (f"{reply.place + 1} of {reply.count:,}", "dim"), ("  frozen, f continues" if frozen else "", "accent"),
    ]  # fmt: skip


def now_lines(reply: NowReply | None, width: int, height: int) -> list[Pieces]:
    """Return the end of the prompt in one line, and the end of the text in those below."""
    if reply is None or not reply.count:
        return []
    question = ending(" ".join(safe_text(asked(reply.prompt)).split()), width - 5)
    text = [row for line in safe_text(reply.text).split("\n") for row in wrapped([(line, "")], width - 5)]
    rows = text[-max(1, height - 1) :]
    first: Pieces = [(" Q  ", "dim"), (question, "dim")]
    found = [[(" A  " if not place else "    ", "dim"), *row] for place, row in enumerate(rows)]
    found[-1].append(("▌", "accent"))
    return [first, *found]


def ending(text: str, width: int) -> str:
    """Return the end of a text that fits into so many cells."""
    shown = safe_line(text)
    if cell_width(shown) <= width:
        return shown
    return "…" + take(shown[::-1], width - 1)[::-1]


def configured(job: JobView, configuration: Mapping[str, object], repro: ReproReply | None) -> list[Pieces]:
    """Return the job's settings, what it was measured with, and the command that repeats it."""
    lines: list[Pieces] = [[("again     ", "dim"), (as_typed(repro.argv), "info")]] if repro else []
    lines += [[("          ", ""), (f"this command no longer repeats the job: {sentence}", "warn")] for sentence in
              (repro.differs if repro else ())]  # fmt: skip
    lines.append([("weights   ", "dim"), (job.weights, ""), (f"  generation key {job.generation_key[:12]}", "dim")])
    for title, found in (("settings", configuration), ("provenance", job.score.provenance if job.score else {})):
        pairs = list(flat(found))
        lines += [[(title, "title")]] if pairs else []
        lines += [[(f"  {name:<34} ", "dim"), (value, "")] for name, value in pairs]
    return lines


def flat(value: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Return a nested value as dotted names with texts; members of a list go by their own name if they have one."""
    members: Sequence[tuple[str, object]]
    if isinstance(value, Mapping):
        members = [(str(name), member) for name, member in value.items()]
    elif isinstance(value, list) and any(isinstance(member, (dict, list)) for member in value):
        members = [named(member, place) for place, member in enumerate(value)]
    else:
        shown = ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
        yield prefix, safe_line(shown) or "–"
        return
    for name, member in members:
        yield from flat(member, f"{prefix}.{name}" if prefix else name)


def named(member: object, place: int) -> tuple[str, object]:
    """Return a member of a list under its own name, else under its index."""
    if isinstance(member, dict) and "name" in member:
        return str(member["name"]), {name: value for name, value in member.items() if name != "name"}
    return str(place), member
