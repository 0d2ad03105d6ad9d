"""`rwkvctl watch`: measure the checkpoints of a training run as they appear."""

# ruff: noqa: RUF009 - `option` makes a dataclass field and nothing else

import dataclasses
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from rwkvctl.cli import long_reads, selection
from rwkvctl.cli.client import Answer, Record, segment
from rwkvctl.cli.commands.gate import judged, outcome, say_why
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import option, verb
from rwkvctl.cli.selection import WorkFilters
from rwkvctl.cli.tables import comparison_tables, watch_tables
from rwkvctl.cli.waiting import refuse_stale
from rwkvctl.protocol.errors import Exit, NotNowError, RefusedError, UnreachableError
from rwkvctl.protocol.states import WatchedState, WatchPolicy
from rwkvctl.text.json_envelope import envelope
from rwkvctl.text.progress_meter import Meter
from rwkvctl.text.quantities import several
from rwkvctl.text.sanitize import fit, safe_line

FEW = 10
"""Jobs and reasons that are named one by one."""
LONGEST = 400
LOOK_S: Final = 2.0
NOT_MEASURED: Final = ("vanished", "superseded")
T = TypeVar("T")


@verb
def watch(context: Context) -> int:
    """The watched folders, and how far their checkpoints are.

    $ rwkvctl watch
    """
    answer = context.client.get("/v1/watches")
    context.show(answer, watch_tables.watches(answer.value["items"]))
    return Exit.OK


@dataclasses.dataclass(frozen=True)
class WatchFlags:
    """Which files of a folder are checkpoints, when one is ready, and which are measured."""

    match: list[str] = option(
        [], "only files and folders whose names match one of these patterns (default: every .pth and .safetensors)"
    )
    policy: WatchPolicy = option("newest", "which are measured: all; the newest; or the first and the newest")
    every: int = option(0, "only those whose step is a multiple of this, and the final one")
    settle: int = option(30, "seconds for which a file must not have changed")
    marker: str = option("", "a file that says that a checkpoint is complete, instead: {}.done, {} being its name")
    step: str = option("", "where the step stands in the names, as {}: ckpt_{}_of (default: as training scripts do)")
    most_waiting: int = option(0, "queue no more while so many of its jobs wait (default: no limit)")


@verb
def watch_add(
    context: Context, root: str, work: WorkFilters, flags: WatchFlags, *, name: str = "", baseline: str = "",
    check: bool = False,
) -> int:  # fmt: skip
    """Watch a folder: each checkpoint in it is measured as soon as it is whole.

    A checkpoint is ready when it has not changed for --settle seconds, or when its
    --marker file is there, and its format says that nothing is missing. It is known
    by its sha256: a name that is used again with other content is new work, and a
    copy is not. Its models are called NAME-FILE.

    The flags of `dispatch` say what is measured; a --suite means what benchmarks.toml
    says when a checkpoint is queued. The jobs have the priority -10, so
    that other work comes first, unless --priority says another one.

    With --policy newest, a checkpoint of which no job has begun gives way to a newer
    one. Which is newer its step says: `rwkv-12.pth`, `step1200.pth`; `final` in a name
    is the last. Names without a step count as older than those with one.

    root: the folder; three levels below it are looked into, links are not followed
    name: the models' names begin with it (default: the folder's name)
    baseline: compare the scores of its checkpoints with those of this model, as `baseline pin` does
    check: only show what is there, and which steps the names say

    $ rwkvctl watch add /runs/g1x --match 'rwkv-*.pth' --only-datasets gsm8k mmlu --check
    $ rwkvctl watch add /runs/g1x --match 'rwkv-*.pth' --suite nightly --baseline rwkv7-g1d-1.5b
    $ rwkvctl watch add /runs/g1x --name big --policy all --every 5000 --only-datasets mmlu_pro
    """
    if not root:
        raise UsageError("rwkvctl watch add: the folder has no name.")
    for flag in ("every", "settle", "most_waiting"):
        if getattr(flags, flag) < 0:
            raise UsageError(f"rwkvctl watch add: --{flag.replace('_', '-')} must not be below 0.")
    measured = selection.work(work, str(context.config.home))
    pinned = {"baseline": baseline} if baseline else {}
    selection.check_daemon(context.client, measured | pinned)
    measured = selection.with_order_kept(context.client, measured)
    rules = dataclasses.asdict(flags)
    rules["settle_s"] = rules.pop("settle")
    if work.priority is not None:
        rules["priority"] = work.priority
        measured.pop("priority", None)
    body = {"root": os.path.abspath(root), "name": name, "rules": rules, "selection": measured, "check": check}  # noqa: PTH100 - as typed
    body |= pinned
    answer = context.change("/v1/watches", body)
    found = answer.value["watch"]
    seen = sum(found.get("counts", {}).values())
    said = "would watch" if check else f"{found['watch']} watches"
    show(context, answer, f"{said} {found['root']}: {several(seen, 'checkpoint')} there now")
    return Exit.OK


@verb
def watch_show(
    context: Context, watch: str, *, state: WatchedState | None = None, limit: int = 100, after: int = 0
) -> int:
    """One watched folder with its checkpoints, the last step first.

    watch: w1, the name of its models, or the folder
    state: only the checkpoints in this state
    limit: at most this many
    after: leave out this many before (the next page)

    $ rwkvctl watch show w1
    $ rwkvctl watch show w1 --state parked
    """
    if limit < 1 or after < 0:
        raise UsageError("rwkvctl watch show: --limit must be at least 1, and --after not below 0.")
    route = f"/v1/watches/{segment(named(context, watch))}"
    answer = context.client.get(route, state=state or "", limit=limit, after=after)
    found = answer.value["watch"]
    show(context, answer, f"{found['watch']}  {found['root']}  {watch_tables.counted(found)}")
    if (cursor := answer.value.get("next")) and not context.as_json:
        context.say(f"there are more: --after {cursor}")
    return Exit.OK


@verb
def watch_wait(
    context: Context, watch: str, checkpoint: str = "", *, step: int | None = None, margin: float = 0.01,
    timeout: float | None = None,
) -> int:  # fmt: skip
    """Wait until a checkpoint is measured, then check that it did not get worse, as `gate` does.

    It is compared with its pinned baseline, on the rows that its feedback shows: where the
    suite holds rows back, on 40 % of them, which shows only larger drops than `gate` does on
    all. A checkpoint that is not there yet is waited for, and so is a daemon that goes away.

    Exit code: 0 passed, or left out (a newer one took its place, or an operator said so:
    nothing was asked, so nothing is wrong); 1 a regression; 8 no regression found, but not
    all was measured and compared, or no baseline is pinned; 6 not measured within --timeout;
    4 there is no such watch.

    watch: w1, the name of its models, or the folder
    checkpoint: as `watch show` names it
    step: the checkpoint of this step
    margin: a drop of at most this much passes, as a fraction of 1 (in the metric's unit where that is no share)
    timeout: seconds after which waiting ends

    $ rwkvctl watch wait w1 --step 1200
    $ rwkvctl watch wait w1 rwkv-12.pth --margin 0.02 --timeout 7200
    """
    if (checkpoint == "") == (step is None) or (step is not None and step < 0):
        raise UsageError("rwkvctl watch wait: name a checkpoint, or give its --step.")
    if margin < 0 or (timeout is not None and timeout < 0):
        raise UsageError("rwkvctl watch wait: --margin and --timeout must not be below 0.")
    name = named(context, watch)
    context.client.get(f"/v1/watches/{segment(name)}", limit=1)  # what is not there is refused at once
    wanted = WantedCheckpoint(name, checkpoint, step)
    deadline = float("inf") if timeout is None else time.monotonic() + timeout
    found = measured(context, wanted, deadline)
    if found["state"] in NOT_MEASURED or not found.get("jobs"):
        return unmeasured(context, found)
    reply = feedback_of(context, wanted, found["model"], deadline).value
    compared = [item["baseline"] for item in reply.get("items", ()) if item.get("baseline")]
    items = [judged(item, margin, reply["alpha"]) for item in compared]
    items += [unscored(job) for job in reply.get("missing", ())]
    verdict, code = outcome(items)
    if reply.get("left_out") and verdict == "passed":
        verdict, code = "undecided", Exit.PARTLY
    said = {name: reply.get(name, "") for name in ("watch", "baseline", "left_out", "part", "alpha")}
    said |= {"checkpoint": found["name"], "model": found["model"], "margin": margin, "verdict": verdict}
    answer = Answer(envelope("rwkvctl.watch-wait/1", said | {"items": items}).encode(), {})
    context.show(answer, comparison_tables.table(items))
    if not context.as_json:
        say_outcome(context, said, items)
    return code


def say_outcome(context: Context, said: Record, items: list[Record]) -> None:
    """Print the verdict, and what must be known with it."""
    passed = [item for item in items if item["gate"] == "passed"]
    worse = sum(item["verdict"] == "worse" for item in passed)
    within = f", {several(worse, 'benchmark')} worse within the margin" if worse else ""
    against = f" against {said['baseline']}" if said["baseline"] else ""
    counted = f"{len(passed)} of {several(len(items), 'benchmark')} passed{within}" if items else "nothing was compared"
    context.say(safe_line(f"{said['verdict']}: {said['checkpoint']}{against}: {counted}"))
    if said["part"] == "search":
        context.say("note: compared on the 40 % of the rows that are not held back; `gate` compares all")
    if not said["baseline"]:
        context.say("undecided: no baseline is pinned for it; see `rwkvctl baseline pin --help`")
    if said["left_out"]:
        context.say(fit(safe_line(f"undecided: {said['left_out']}"), LONGEST))
    say_why(context, items, said["verdict"] if items or said["baseline"] else "")


@dataclasses.dataclass(frozen=True)
class WantedCheckpoint:
    """A checkpoint of a watch that is waited for, by its name or its step."""

    watch: str
    checkpoint: str
    step: int | None

    @property
    def called(self) -> str:
        return self.checkpoint or f"the checkpoint of step {self.step:,}"

    def means(self, item: Record) -> bool:
        """Whether it is this one; an older daemon returns others, too."""
        if self.step is not None:
            return bool(item.get("step") == self.step)
        names = {item["name"], item.get("model", "")}
        return any(self.checkpoint == name or self.checkpoint.endswith(f"/{name}") for name in names if name)


def measured(context: Context, wanted: WantedCheckpoint, deadline: float) -> Record:
    """Wait until a checkpoint is measured or is not going to be; returns it. A daemon that goes away is waited for.
    Raises RefusedError after the deadline."""
    with Meter() as meter:
        while True:
            newest, said = if_it_answers(meter, partial(newest_of, context, wanted)) or ({}, "")
            if newest.get("state") in {"done", "parked", *NOT_MEASURED}:
                return newest
            if said:
                meter.say(fit(safe_line(said), LONGEST))
            pause(wanted, said, deadline)


def feedback_of(context: Context, wanted: WantedCheckpoint, model: str, deadline: float) -> Answer:
    """Return the feedback on a checkpoint, by its model: its name may have other content by now. A daemon that goes
    away is waited for. Raises RefusedError after the deadline."""
    ask = partial(long_reads.feedback, context.client, wanted.watch, {"checkpoint": model})
    with Meter() as meter:
        while (found := if_it_answers(meter, ask)) is None:
            pause(wanted, "", deadline)
    return found


def if_it_answers(meter: Meter, ask: Callable[[], T]) -> T | None:
    """Return an answer; None if the daemon or its store gives none, which is said."""
    try:
        return ask()
    except (ConnectionError, UnreachableError, NotNowError):
        meter.say("the daemon does not answer; waiting goes on")
        return None


def pause(wanted: WantedCheckpoint, said: str, deadline: float) -> None:
    """Wait a moment. Raises RefusedError after the deadline."""
    if time.monotonic() > deadline:
        text = f"Not measured in time: {said or f'{wanted.called}: the daemon does not answer'}."
        raise RefusedError("timed-out", text, f"See: rwkvctl watch show {wanted.watch}", Exit.TIMEOUT)
    time.sleep(LOOK_S)


def newest_of(context: Context, wanted: WantedCheckpoint) -> tuple[Record, str]:
    """Return the newest content of a checkpoint's name or step, empty if there is none yet, and how far it is. Raises
    NotNowError for a stale reply."""
    query = {"checkpoint": wanted.checkpoint, "limit": 100} | ({} if wanted.step is None else {"step": wanted.step})
    reply = context.client.get(f"/v1/watches/{segment(wanted.watch)}", **query).value
    refuse_stale(reply)
    newest: Record = max(filter(wanted.means, reply.get("items", ())), key=lambda one: one["id"], default={})
    paused = "; the watch is paused" if reply["watch"]["state"] == "paused" else ""
    if not newest:
        return {}, f"{wanted.called} is not there yet{paused}"
    why = f": {newest['reason'].rstrip('.')}" if newest.get("reason") else ""
    return newest, f"{newest['name']} is {newest['state']}{why}{paused}"


def unmeasured(context: Context, found: Record) -> int:
    """Say why a checkpoint is not measured. One that was left out is no failure."""
    skipped = found["state"] == "superseded"
    verdict, code = ("skipped", Exit.OK) if skipped else ("undecided", Exit.PARTLY)
    why = found.get("reason", "")
    fields = {"checkpoint": found["name"], "state": found["state"], "verdict": verdict, "why": why, "items": []}
    if context.as_json:
        context.show_local("rwkvctl.watch-wait/1", fields)
    else:
        named = f"{found['name']} was not measured: "
        context.say(
            fit(safe_line(f"{verdict}: {named}{(why or found['state']).removeprefix(found['name'] + ' ')}"), LONGEST)
        )
    return code


def unscored(job: Record) -> Record:
    """Return the item for a job that has no score."""
    why = ": ".join(filter(None, (f"{job['job']} is {job['state']}", job.get("why", ""))))
    return {"benchmark": job.get("benchmark", ""), "kind": job.get("kind", ""), "verdict": "not comparable", "why": why,
            "gate": "undecided"}  # fmt: skip


@verb
def watch_pause(context: Context, watch: str) -> int:
    """Look at a folder no more, until `watch resume`; its queued jobs go on.

    watch: w1, the name of its models, or the folder

    $ rwkvctl watch pause w1
    """
    return change(context, watch, "pause")


@verb
def watch_resume(context: Context, watch: str) -> int:
    """Look at a folder again, as it is now, if another one was put or mounted in its place.

    watch: w1, the name of its models, or the folder

    $ rwkvctl watch resume w1
    """
    return change(context, watch, "resume")


@verb
def watch_remove(context: Context, watch: str) -> int:
    """Forget a watched folder; its jobs and scores stay.

    watch: w1, the name of its models, or the folder

    $ rwkvctl watch remove w1
    """
    answer = changed(context, watch, "remove")
    found = answer.value["watch"]
    if context.as_json:
        context.show(answer)
        return Exit.OK
    context.say(f"{found['watch']} is removed: {found['root']} is watched no more.")
    jobs = [job for item in answer.value.get("items", ()) for job in item.get("jobs", ())]
    if jobs:
        more = f" and {len(jobs) - FEW:,} more" if len(jobs) > FEW else ""
        context.say(f"Its jobs go on: {' '.join(jobs[:FEW])}{more}; `rwkvctl stop` stops them.")
    return Exit.OK


@verb
def watch_retry(context: Context, watch: str, checkpoints: list[str] = []) -> int:  # noqa: B006
    """Measure checkpoints after all that were parked or left out, whatever the policy says.

    watch: w1, the name of its models, or the folder
    checkpoints: as `watch show` names them (default: all that are parked)

    $ rwkvctl watch retry w1
    $ rwkvctl watch retry w1 rwkv-12.pth
    """
    return change(context, watch, "retry", checkpoints)


@verb
def watch_skip(context: Context, watch: str, checkpoints: list[str]) -> int:
    """Leave checkpoints out, and stop their jobs, if none of these has begun.

    watch: w1, the name of its models, or the folder
    checkpoints: as `watch show` names them

    $ rwkvctl watch skip w1 rwkv-12.pth
    """
    return change(context, watch, "skip", checkpoints)


def change(context: Context, watch: str, action: str, checkpoints: list[str] | None = None) -> int:
    """Change a watch, and show it."""
    answer = changed(context, watch, action, checkpoints)
    found = answer.value["watch"]
    show(context, answer, f"{found['watch']}  {found['root']}  {watch_tables.counted(found)}")
    return Exit.OK


def changed(context: Context, watch: str, action: str, checkpoints: list[str] | None = None) -> Answer:
    """Change a watch that is named as an operator names it; returns the reply."""
    body = {"watch": named(context, watch), "action": action, "checkpoints": checkpoints or []}
    return context.change("/v1/watches/change", body)


def named(context: Context, watch: str) -> str:
    """Return how the daemon knows a watch that may be named by its folder."""
    if not watch:
        raise UsageError("rwkvctl watch: name a watch; `rwkvctl watch` lists them.")
    if "/" not in watch:
        return watch
    items = context.client.get("/v1/watches").value["items"]
    folders = {os.path.realpath(watch), os.path.abspath(watch)}  # noqa: PTH100 - as typed
    found = [item["watch"] for item in items if item["root"] in folders]
    if len(found) != 1:
        said = f"{', '.join(found)} have" if found else "no watch has"
        raise UsageError(f"rwkvctl watch: {said} the folder {watch}; `rwkvctl watch` lists them.")
    return str(found[0])


def show(context: Context, answer: Answer, first: str) -> None:
    """Show one watch with its rules and its checkpoints."""
    found: Record = answer.value["watch"]
    headline = [first, *watch_tables.rules(found), ""]
    if found.get("detail"):
        headline.insert(1, found["detail"])
    items = answer.value.get("items", ())
    context.show(answer, watch_tables.checkpoints(items), headline=headline)
    if context.as_json:
        return
    parked = [item for item in items if item["state"] == "parked"]
    for item in parked[:FEW]:
        context.say(fit(safe_line(f"{item['name']}: {item.get('reason', '')}"), LONGEST))
    for note in answer.value.get("notes", ()):
        context.say(fit(safe_line(note), LONGEST))
