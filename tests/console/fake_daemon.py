"""A daemon that only plays: it serves `rwkvctl.protocol.routes` from lists, for tests of the CLI and the console.

Run by itself it plays a node with two jobs that make progress: `python tests/console/fake_daemon.py /tmp/d.sock`.
"""

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from rwkvctl.http import listeners, server
from rwkvctl.protocol.audit import AuditReply, AuditView
from rwkvctl.protocol.events import Event, LogChunk
from rwkvctl.protocol.gpus import ChangedGpu, GpusChangedReply, GpusReply, GpuView
from rwkvctl.protocol.operation import PausesReply
from rwkvctl.protocol.recipes import FunnelStageView, RecipeReply, RecipesReply, RecipeView
from rwkvctl.protocol.replies import (
    BenchmarksReply,
    ChangedReply,
    DispatchReply,
    EndpointsReply,
    ErrorReply,
    ExchangeReply,
    InfoReply,
    JobReply,
    JobsReply,
    JudgeReply,
    ModelsReply,
    OutlineReply,
    PlanReply,
    Reply,
    ReviewReply,
    SameReply,
    SamplesReply,
    ScoresReply,
    StatusReply,
    SuitesReply,
)
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.routes import PROTOCOL
from rwkvctl.protocol.service import ConfigReply, FamilyView, Figure, MetricsReply, ReloadReply, SettingView
from rwkvctl.protocol.training.baselines import BaselinesReply
from rwkvctl.protocol.training.watches import WatchedView, WatchesReply, WatchReply, WatchView
from rwkvctl.protocol.views import (
    BenchmarkView,
    ChangedJob,
    EndpointView,
    EngineView,
    FindingView,
    JobView,
    JudgeView,
    LeaseView,
    MetricView,
    ModelView,
    PauseView,
    PlanRow,
    SameView,
    SampleView,
    ScoreView,
    StageView,
    SuiteKind,
    SuiteView,
)
from rwkvctl.protocol.zombies import ReapedView, ReapReply, ZombiesReply, ZombieView

NOW = "2026-11-21T05:13:34.000Z"
EVIL = (
    "A\x1b]52;c;RVZJTA==\x07B\x1b[2JC\x9b31mD\x1b]0;EVIL\x07[bold]E[/bold] [@click=app.quit]F[/] [/nope]"
    "\u202eG\u200bH\r"
)
METRIC = MetricView(value=0.749, stderr=0.01, ci_low=0.726, ci_high=0.772)


def now() -> str:
    """The time as the daemon says it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def job(number: int, state: Any = "generating", **more: Any) -> JobView:
    """A job with plausible values."""
    given = {"done": 40, "total": 100, "numerics": "fp32", "engine": "e1", "queued": NOW} | more
    names = {"model": "rwkv7-g1-2.9b", "benchmark": "gsm8k", "kind": "cot", "session": "s1"} | {
        name: given.pop(name) for name in ("model", "benchmark", "kind", "session") if name in given
    }
    return JobView(id=f"j{number}", state=state, **names, **given)


def score(number: int, **more: Any) -> ScoreView:
    """A score with plausible values."""
    given = {
        "model": "rwkv7-g1-2.9b", "benchmark": "gsm8k", "kind": "cot", "version": 1, "primary": "accuracy",
        "metrics": {"accuracy": METRIC}, "n": 1319, "rows": 1319, "repeats": 1, "truncated": 12, "no_answer": 3,
        "errors": 0, "chance": 0.0,
    } | more  # fmt: skip
    return ScoreView(job=f"j{number}", **given)


def sample(number: int, **more: Any) -> SampleView:
    """A wrong sample of two stages."""
    stages = (
        StageView(stage="think", prompt="User: 3+4?\n\nAssistant: <think", completion=">It is 8.", stop="stop_suffix"),
        StageView(stage="answer", prompt="</think>\n", completion="The answer is 8.", stop="stop_token"),
    )
    given = {"row": number, "repeat": 0, "value": 0.0, "reason": "wrong", "expected": "7", "extracted": "8"}
    return SampleView(number=number, **(given | {"stages": stages} | more))


def lease() -> LeaseView:
    """Return the CPU lease, which engine e1 holds."""
    return LeaseView(id="cpu:0", name="CPU, 2 cores", use="leased", engine="e1", memory_used_bytes=2**30)


def engine(**more: Any) -> EngineView:
    """Return engine e1, ready on the CPU lease, with the fields of `more` replaced."""
    given = {"id": "e1", "model": "rwkv7-g1-2.9b", "numerics": "fp32", "lease": "cpu:0", "state": "ready"}
    return EngineView(**(given | {"running": 8, "slots": 16, "decode_tokens_per_s": 559_323.0} | more))


def recipe(number: int, state: Any = "done", **more: Any) -> RecipeView:
    """A recipe without its jobs; of a done one the funnel is known."""
    stages = (
        FunnelStageView(name="sample", unit="samples", rows_in=51_200, rows_out=51_180, dropped={"error": 20}),
        FunnelStageView(name="right", unit="samples", rows_in=51_180, rows_out=23_345,
                        dropped={"wrong": 26_102, "no answer": 1_733}),
        FunnelStageView(name="rewrite", unit="samples", rows_in=23_345, rows_out=23_074,
                        dropped={"not copied faithfully": 190, "form": 81}),
        FunnelStageView(name="check again", unit="samples", rows_in=23_074, rows_out=22_841, dropped={"wrong": 233}),
        FunnelStageView(name="select shortest-correct", unit="samples", rows_in=22_841, rows_out=9_120,
                        dropped={"more of the same problems": 13_721}),
        FunnelStageView(name="clean", unit="rows", rows_in=9_120, rows_out=8_871,
                        dropped={"near math_500": 187, "duplicates of earlier problems": 62}),
        FunnelStageView(name="rows", unit="rows", rows_in=8_871, rows_out=8_871),
    )  # fmt: skip
    given = {"name": "sky.toml", "created": NOW, "jobs": ("j90",)} | more
    if state == "done":
        given = {"rows": 8_871, "funnel": stages} | given
    return RecipeView(recipe=f"r{number}", state=state, **given)


def watch(number: int, counts: dict[str, int], **more: Any) -> WatchView:
    """A watched folder with so many checkpoints in each state."""
    given = {"name": "g1x", "root": "/runs/g1x", "state": "watching", "selection": Selection(suite="nightly")} | more
    return WatchView(watch=f"w{number}", counts=counts, **given)


def checkpoint(step: int, state: Any = "done", **more: Any) -> WatchedView:
    """A checkpoint of the folder g1x."""
    given = {"name": f"rwkv-{step}.pth", "step": step, "model": f"g1x-rwkv-{step}", "seen": NOW, "finished": NOW}
    given |= {"id": step} | ({"reason": "2 of 2 jobs done", "jobs": ("j1", "j2")} if state == "done" else {})
    return WatchedView(state=state, **(given | more))


def writer(**more: Any) -> EndpointView:
    """The writer, which has spent some of its budget."""
    usage = {"prompt_tokens": 1_200_000, "completion_tokens": 800_000, "cost": 61.2}
    service = JudgeView(role="writer", model="Qwen3-32B", usage=usage, budget=100.0, **more)
    return EndpointView(name="writer", base_url="https://models.example/v1", model="Qwen3-32B", api="chat",
                        identity="w", service=service)  # fmt: skip


@dataclass
class Node:
    """What the fake daemon knows, and what it was asked. `answers` replaces the reply to a route."""

    jobs: list[JobView] = field(default_factory=lambda: [job(1), job(2, "queued", reason="waits-for-engine", done=0)])
    engines: list[EngineView] = field(default_factory=lambda: [engine()])
    lease_views: list[LeaseView] = field(default_factory=lambda: [lease()])
    scores: list[ScoreView] = field(default_factory=lambda: [score(9)])
    samples: list[SampleView] = field(default_factory=lambda: [sample(0), sample(1, value=1.0, reason="right")])
    findings: list[FindingView] = field(default_factory=list)
    same: list[SameView] = field(default_factory=list)
    exchange: ExchangeReply = field(default_factory=lambda: ExchangeReply(problem="no judge"))
    subjects: tuple[str, ...] = ()
    numbered: dict[int, SampleView] = field(default_factory=dict)
    plan_rows: list[PlanRow] = field(
        default_factory=lambda: [
            PlanRow(model="rwkv7-g1-2.9b", benchmark="gsm8k", kind="cot", action="run", reason="run", samples=1319),
            PlanRow(model="rwkv7-g1-2.9b", benchmark="mmlu", kind="plain", action="skip", reason="done", job="j9"),
            PlanRow(
                model="rwkv7-g1-2.9b",
                benchmark="ifeval",
                kind="plain",
                action="hold",
                reason="data-missing",
                detail="no rows",
            ),
        ]
    )
    holders: list[ZombieView] = field(default_factory=list)
    reaped: list[ReapedView] = field(default_factory=list)
    gpus: list[GpuView] = field(default_factory=list)
    judges: list[JudgeView] = field(default_factory=list)
    recipes: list[RecipeView] = field(default_factory=list)
    """Newest last, each with its jobs; the list leaves those out."""
    watches: list[WatchView] = field(default_factory=list)
    checkpoints: dict[str, list[WatchedView]] = field(default_factory=dict)
    """Of each watch, the last step first."""
    endpoints: list[EndpointView] = field(default_factory=list)
    suites: list[SuiteView] = field(
        default_factory=lambda: [
            SuiteView(
                name="nightly",
                description="every checkpoint",
                limit=500,
                kinds=(
                    SuiteKind(benchmark="gsm8k", kind="cot", rows=500, settings={"k": "4", "seed": "7"}),
                    SuiteKind(benchmark="gsm8k", kind="param_search_cot", rows=500, search=True),
                    SuiteKind(benchmark="ifeval", kind="plain"),
                ),
                search_models=("rwkv7-*-2.9b*",),
                search_newest=True,
            ),
            SuiteView(name="broken", problem="--suite broken: there is no own_gone any more."),
        ]
    )
    log: str = "line 1\nline 2\n"
    events: list[Event] = field(default_factory=list)
    audits: list[AuditView] = field(default_factory=list)
    settings: list[SettingView] = field(
        default_factory=lambda: [
            SettingView(name="home", value="/x/h", origin="environment RWKVCTL_HOME", help="where all lies"),
            SettingView(name="reap", value="ask", origin="/etc/rwkvctl/config.toml:3", help="what of orphans"),
        ]
    )
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    answers: dict[str, Callable[[server.Request], server.Response]] = field(default_factory=dict)
    protocol: str = str(PROTOCOL)
    heartbeat_s: float = 0.5

    def tell(self, kind: str, data: Any = None, text: str = "", *, stored: bool = True) -> None:
        """Put an event into the stream (from any thread)."""
        about = {"job": data.id} if isinstance(data, JobView) else {}
        seq = sum(event.seq > 0 for event in self.events) + 1 if stored else 0
        content = msgspec.to_builtins(data) if data is not None else {}
        self.events.append(Event(kind=kind, at=NOW if stored else now(), seq=seq, text=text, data=content, **about))

    def change(self, number: int, **more: Any) -> JobView:
        """Change a job, and tell."""
        place = next(i for i, known in enumerate(self.jobs) if known.id == f"j{number}")
        state = self.jobs[place].state
        self.jobs[place] = msgspec.structs.replace(self.jobs[place], **more)
        moved = more.get("state", state) != state
        self.tell(
            "job.state" if moved else "job.progress", self.jobs[place], f"{state} to {more.get('state')}", stored=moved
        )
        return self.jobs[place]

    def counts(self) -> dict[str, int]:
        """Return the number of jobs in each state that occurs."""
        return {
            state: sum(known.state == state for known in self.jobs) for state in {known.state for known in self.jobs}
        }

    async def handle(self, request: server.Request) -> server.Response:
        """Record a request in `asked` and answer it, with the header of the protocol version."""
        body = msgspec.json.decode(request.body) if request.body else None
        self.asked.append((request.method, request.path, request.query, body))
        response = self.answer(request, body)
        response.headers["rwkvctl-protocol"] = self.protocol
        return response

    def answer(self, request: server.Request, body: Any) -> server.Response:
        """The response to one request."""
        if request.path in self.answers:
            return self.answers[request.path](request)
        if request.path == "/v1/events" and "limit" in request.query:
            return server.Response(body=self.page(request), content_type=server.NDJSON)
        if request.path == "/v1/events":
            return server.Response(
                body=self.stream(int(request.query.get("since", -1)), request), content_type=server.NDJSON
            )
        if request.path.startswith("/v1/logs/"):
            return server.Response(body=self.log_stream(request), content_type=server.NDJSON)
        reply = self.reply(request, body)
        status = reply.status if isinstance(reply, ErrorReply) else 200
        return server.Response(status, msgspec.json.encode(reply))

    def reply(self, request: server.Request, body: Any) -> Reply:
        """The message that answers one request."""
        words = request.path.split("/")[2:]
        if words[0] == "jobs" and len(words) > 1:
            return self.one_job(words, request.query)
        if words[0] == "recipes" and len(words) > 1:
            return self.one_recipe(words, body)
        if words[0] == "watches" and len(words) > 1:
            return self.one_watch(words, request.query, body)
        return getattr(self, f"on_{words[0]}")(request.query, body)

    def one_job(self, words: list[str], query: dict[str, str]) -> Reply:
        found = [known for known in self.jobs if known.id == words[1]]
        if not found:
            return ErrorReply(
                code="no-such-job",
                detail=f"There is no job {words[1]}.",
                hint="See rwkvctl jobs.",
                status=404,
                exit_code=4,
            )
        if words[2:] == ["samples"]:
            return self.some_samples(query)
        if words[2:] == ["outline"]:
            return self.outline(query)
        if words[2:] == ["same"]:
            return SameReply(items=tuple(self.same), node="fake")
        if words[2:] == ["exchange"]:
            return self.exchange
        return JobReply(item=found[0], node="fake")

    def some_samples(self, query: dict[str, str]) -> Reply:
        """The samples that are named, else all."""
        if len(self.numbered) != len(self.samples):
            self.numbered = {one.number: one for one in self.samples}
        names = query.get("numbers", "")
        found = [self.numbered[n] for n in map(int, names.split(",")) if n in self.numbered] if names else self.samples
        return SamplesReply(items=tuple(found), node="fake")

    def outline(self, query: dict[str, str]) -> Reply:
        """The verdicts of a page of the samples; a text is looked for in the completions."""
        first, text = int(query.get("after", -1)) + 1 >> 20, query.get("text", "")
        limit = int(query.get("limit", 20_000))
        page = self.samples[first : first + limit]
        whole = first + limit >= len(self.samples)
        found = [one for one in page if not text or any(text in stage.completion for stage in one.stages)]
        reasons = sorted({one.reason for one in found})
        subjects = self.subjects if "subjects" in query else ()
        return OutlineReply(
            numbers=tuple(one.number for one in found), rows=tuple(one.row for one in found),
            repeats=tuple(one.repeat for one in found), reasons=tuple(reasons),
            verdicts="".join("abcdefgh"[reasons.index(one.reason)] for one in found),
            cut=tuple(one.number for one in found if any(stage.stop == "length" for stage in one.stages)),
            doubted=tuple(one.number for one in found if one.detail == "doubted"), subjects=subjects,
            subject_of=tuple(one.row % len(subjects) for one in found) if subjects else (),
            next=-1 if whole else (first + limit << 20) - 1, looked=len(page), node="fake",
        )  # fmt: skip

    def on_info(self, *_: Any) -> Reply:
        return InfoReply(version="0.1.0", api_min=1, api_max=1, pid=1, home="/", started=NOW)

    def on_status(self, *_: Any) -> Reply:
        over = ("done", "failed", "stopped")
        waiting = tuple(known for known in self.jobs if known.state in {"queued", "held"})
        recent = tuple(known for known in self.jobs if known.state in over)
        running = tuple(known for known in self.jobs if known not in waiting and known not in recent)
        return StatusReply(
            as_of=NOW, node="fake", version="0.1.0", uptime_s=3700.0, counts=self.counts(),
            leases=tuple(self.lease_views), engines=tuple(self.engines), running=running, waiting=waiting,
            recent=recent, disk_free_bytes=5 * 2**30,
            last_event=max((event.seq for event in self.events), default=0),
        )  # fmt: skip

    def on_jobs(self, *_: Any) -> Reply:
        return JobsReply(items=tuple(reversed(self.jobs)), counts=self.counts(), node="fake")

    def on_plan(self, *_: Any) -> Reply:
        rows = tuple(self.plan_rows)
        counts = {row.reason: sum(other.reason == row.reason for other in rows) for row in rows}
        return PlanReply(
            hash="77c1aa03", rows=rows, counts=counts, computed_ms=3.1, models=1, benchmarks=len(rows), node="fake"
        )

    def on_dispatch(self, *_: Any) -> Reply:
        plan = self.on_plan()
        assert isinstance(plan, PlanReply)
        new = tuple(known.id for known in self.jobs if known.state not in {"done", "failed"})
        return DispatchReply(session="s1", jobs=new, plan=plan, node="fake")

    def on_stop(self, _: Any, body: Any) -> Reply:
        names = [known.id for known in self.jobs] if body.get("all") else body["jobs"]
        return ChangedReply(items=tuple(self.stopped(name) for name in names), node="fake")

    def stopped(self, name: str) -> ChangedJob:
        known = [known for known in self.jobs if known.id == name]
        if not known:
            return ChangedJob(job=name, state="", changed=False, error="no such job")
        changed = known[0].state not in {"stopped", "done", "failed"}
        if changed:
            self.change(int(name[1:]), state="stopped")
        return ChangedJob(job=name, state="stopped", changed=changed)

    def on_resume(self, _: Any, body: Any) -> Reply:
        return ChangedReply(items=tuple(ChangedJob(job=name, state="queued", changed=True) for name in body["jobs"]))

    def on_pause(self, _: Any, body: Any) -> Reply:
        scope = "queue" if body.get("queue") else "model" if body.get("model") else "group"
        name = body.get("model") or body.get("group") or ""
        view = PauseView(scope=scope, name=name, at=NOW, who="alice", why=body.get("why", ""))
        items = tuple(ChangedJob(job=name, state="paused", changed=True) for name in body.get("jobs", ()))
        return PausesReply(items=items, pauses=() if items or body.get("off") else (view,))

    def on_drain(self, _: Any, body: Any) -> Reply:
        view = PauseView(scope="node", at=NOW, who="alice", why=body.get("why", ""))
        running = tuple(known.id for known in self.jobs if known.state == "generating")
        return PausesReply(pauses=() if body.get("off") else (view,), running=running)

    def on_hold(self, _: Any, body: Any) -> Reply:
        return ChangedReply(items=tuple(ChangedJob(job=job, state="held", changed=True) for job in body["jobs"]))

    def on_release(self, _: Any, body: Any) -> Reply:
        return ChangedReply(items=tuple(ChangedJob(job=job, state="queued", changed=True) for job in body["jobs"]))

    def on_priority(self, _: Any, body: Any) -> Reply:
        return ChangedReply(items=tuple(ChangedJob(job=job, state="queued", changed=True) for job in body["jobs"]))

    def on_scores(self, *_: Any) -> Reply:
        return ScoresReply(items=tuple(self.scores), node="fake")

    def on_models(self, *_: Any) -> Reply:
        return ModelsReply(items=(ModelView(name="builtin", path="/x/builtin.pth", size_bytes=999_999, builtin=True),))

    def on_zombies(self, query: dict[str, str], _: Any) -> Reply:
        pid = int(query.get("pid", 0))
        found = [one if pid else msgspec.structs.replace(one, rules=()) for one in self.holders if pid in {0, one.pid}]
        return ZombiesReply(items=tuple(found), policy="ask", reaped=tuple(self.reaped), node="fake")

    def on_gpus(self, _: Any, body: Any) -> Reply:
        if body is None:
            return GpusReply(items=tuple(self.gpus), node="fake")
        made = {"reserve": "reserved", "drain": "draining", "quarantine": "quarantined"}.get(body["action"], "ok")
        for place, gpu in enumerate(self.gpus):
            if gpu.id in body["gpus"]:
                self.gpus[place] = msgspec.structs.replace(gpu, condition=made, reason=body.get("reason", ""))
        items = [ChangedGpu(gpu=gpu.index, condition=made, changed=True) for gpu in self.gpus if gpu.id in body["gpus"]]
        return GpusChangedReply(items=tuple(items), node="fake")

    def on_reap(self, _: Any, body: Any) -> Reply:
        meant = [one for one in self.holders if one.pid == body["pid"]]
        if not body.get("yes"):
            return ReapReply(items=tuple(meant), outcome="dry-run", text="Nothing was done.", plan=("SIGTERM", "look"))
        self.holders = [one for one in self.holders if one not in meant]
        text = f"pid {body['pid']} ended after SIGTERM; its memory is free again"
        self.reaped.insert(0, ReapedView(at=NOW, pid=body["pid"], outcome="freed", text=text, by="alice"))
        return ReapReply(items=(), outcome="freed", text=text)

    def on_judge(self, *_: Any) -> Reply:
        return JudgeReply(judges=tuple(self.judges), node="fake")

    def on_endpoints(self, *_: Any) -> Reply:
        return EndpointsReply(items=tuple(self.endpoints), node="fake")

    def one_recipe(self, words: list[str], body: Any) -> Reply:
        """A recipe, or what it is after a change."""
        name = body["recipe"] if words[1] == "change" else words[1]
        place = next((place for place, one in enumerate(self.recipes) if one.recipe == name), -1)
        if place < 0:
            detail = f"There is no recipe {name}."
            return ErrorReply(code="no-such-recipe", detail=detail, hint="", status=404, exit_code=4)
        if words[1] == "change":
            state = {"pause": "paused", "stop": "stopped", "resume": "waiting"}[body["action"]]
            self.recipes[place] = msgspec.structs.replace(self.recipes[place], state=state)
        return RecipeReply(recipe=self.recipes[place], node="fake")

    def on_recipes(self, *_: Any) -> Reply:
        brief = [msgspec.structs.replace(one, sources=(), toml="") for one in reversed(self.recipes)][:100]
        return RecipesReply(items=tuple(brief), next=int(len(brief) < len(self.recipes)), node="fake")

    def one_watch(self, words: list[str], query: dict[str, str], body: Any) -> Reply:
        """A watched folder with its checkpoints, of one state if that is asked, or what it is after a change."""
        name = body["watch"] if words[1] == "change" else words[1]
        place = next((place for place, one in enumerate(self.watches) if one.watch == name), -1)
        if place < 0:
            detail = f"There is no watch {name}."
            return ErrorReply(code="no-such-watch", detail=detail, hint="", status=404, exit_code=4)
        found = self.checkpoints.setdefault(name, [])
        if words[1] == "change" and body["action"] in {"pause", "resume"}:
            state: Any = "paused" if body["action"] == "pause" else "watching"
            self.watches[place] = msgspec.structs.replace(self.watches[place], state=state)
        elif words[1] == "change":
            changed: Any = "settling" if body["action"] == "retry" else "superseded"
            for number, one in enumerate(found):
                if one.name in body["checkpoints"]:
                    found[number] = msgspec.structs.replace(one, state=changed, reason="")
        items = [one for one in found if query.get("state", "") in {"", one.state}][: int(query.get("limit", 100))]
        return WatchReply(watch=self.watches[place], items=tuple(items), node="fake")

    def on_watches(self, *_: Any) -> Reply:
        return WatchesReply(items=tuple(self.watches), node="fake")

    def on_baselines(self, *_: Any) -> Reply:
        return BaselinesReply(node="fake")

    def on_review(self, *_: Any) -> Reply:
        return ReviewReply(items=tuple(self.findings), node="fake")

    def on_regrade(self, _: Any, body: Any) -> Reply:
        return ChangedReply(items=tuple(ChangedJob(job=job, state="judging", changed=True) for job in body["jobs"]))

    def on_suites(self, *_: Any) -> Reply:
        return SuitesReply(items=tuple(self.suites), node="fake")

    def on_benchmarks(self, *_: Any) -> Reply:
        item = BenchmarkView(
            name="gsm8k", title="School maths", domain="maths", kinds=("plain", "cot"), version=1, split="test"
        )
        return BenchmarksReply(items=(item,))

    async def page(self, request: server.Request) -> AsyncIterator[bytes]:
        """The last events before a number, or before a time."""
        before, until = int(request.query.get("before", 2**62)), request.query.get("until", "Z")
        found = [event for event in self.events if 0 < event.seq < before and event.at < until]
        for event in found[-int(request.query["limit"]) :]:
            yield msgspec.json.encode(event) + b"\n"

    def on_config(self, *_: Any) -> Reply:
        return ConfigReply(items=tuple(self.settings), files=("/etc/rwkvctl/config.toml",), node="fake")

    def on_metrics(self, *_: Any) -> Reply:
        figure = FamilyView(
            name="process_resident_memory_bytes", type="gauge", help="", figures=(Figure(value=80 * 2**20),)
        )
        return MetricsReply(items=(figure,), node="fake")

    def on_reload(self, *_: Any) -> Reply:
        return ReloadReply(changed=("reap: 'ask' is 'auto' now",), waits=("socket",), warnings=("odd",), node="fake")

    def on_audit(self, query: dict[str, str], _: Any) -> Reply:
        before, limit = int(query.get("before", 2**62)), int(query.get("limit", 100))
        found = [entry for entry in reversed(self.audits) if entry.id < before][:limit]
        return AuditReply(items=tuple(found), next=found[-1].id if len(found) == limit else 0, node="fake")

    async def stream(self, since: int, request: server.Request) -> AsyncIterator[bytes]:
        place = (
            next((i for i, event in enumerate(self.events) if event.seq > since), len(self.events))
            if since >= 0
            else len(self.events)
        )
        yield msgspec.json.encode(Event(kind="heartbeat", at=NOW)) + b"\n"
        quiet = 0.0
        while not request.gone.is_set():
            if place < len(self.events):
                yield msgspec.json.encode(self.events[place]) + b"\n"
                place, quiet = place + 1, 0.0
                continue
            await asyncio.sleep(0.02)
            quiet += 0.02
            if quiet >= self.heartbeat_s:
                yield msgspec.json.encode(Event(kind="heartbeat", at=NOW)) + b"\n"
                quiet = 0.0

    async def log_stream(self, request: server.Request) -> AsyncIterator[bytes]:
        """The log from an offset, and what is added to it while it is followed."""
        place, told = int(request.query.get("offset", 0)), False
        while True:
            if len(self.log) > place or not place:
                text, place = self.log[place:], len(self.log)
                at = "2026-11-22T01:02:03Z" if request.query.get("timestamps") == "true" else ""
                chunk = LogChunk(source="runner", text=text, attempt=1, offset=place, at=at)
                yield msgspec.json.encode(chunk) + b"\n"
            if request.query.get("follow") != "true" or request.gone.is_set():
                return
            if not told:
                told = True
                yield msgspec.json.encode(LogChunk(source="runner", text="", attempt=1, offset=place)) + b"\n"
            await asyncio.sleep(0.02)


@contextmanager
def serving(path: Path, node: Node) -> Iterator[Node]:
    """Serve a node on a socket from a thread, until the block ends."""
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(path, node, ready, stop),), daemon=True)
    thread.start()
    assert ready.wait(120)
    try:
        yield node
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(120)
        loop.close()


async def serve(path: Path, node: Node, ready: threading.Event, stop: asyncio.Event) -> None:
    """Serve until asked to stop; the socket is gone afterwards."""
    web = server.Server(node.handle)
    listening = await web.start(listeners.bind_unix(path))
    ready.set()
    await stop.wait()
    listening.close()
    await web.close()
    path.unlink(missing_ok=True)


async def play(path: Path) -> None:
    """A node whose two jobs make progress, again and again."""
    node = Node(jobs=[job(1, total=400), job(2, model="rwkv7-g0-7.2b", benchmark="mmlu_pro", kind="plain", total=900)])
    node.jobs += [
        job(3, "queued", reason="waits-for-engine", done=0),
        job(4, "held", reason="data-missing", detail="ifeval"),
    ]
    node.jobs += [
        job(5, "failed", detail="the engine ran out of memory twice"),
        job(6, "done", score=score(6), done=100),
    ]
    node.samples = [sample(n, value=float(n % 3 > 0)) for n in range(12)] + [sample(12, extracted=EVIL)]
    ready, stop = threading.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(path, node, ready, stop))
        while True:
            await asyncio.sleep(0.5)
            for number in (1, 2):
                known = node.jobs[number - 1]
                node.change(
                    number, done=(known.done + 7) % known.total, running_score=METRIC, eta_s=60.0, samples_per_s=14.0
                )
            node.log += f"05:13:34 I runner batch=64 done={node.jobs[0].done}\n"
            node.tell("engine.stats", node.engines[0], stored=False)
            node.tell("job.state", node.jobs[3], f"held: no rows for ifeval ({len(node.events)})")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(play(Path(sys.argv[1])))
