"""TSV of every verb: one header line, as many cells in every line, and numbers that a program reads as they are."""

import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import msgspec
import pytest
from msgspec import inspect

from rwkvctl.cli.client import Answer
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError, arguments
from rwkvctl.cli.registry import find, load_all
from rwkvctl.cli.render import Cell, Column, Table, Terminal, separated
from rwkvctl.protocol.audit import AuditReply
from rwkvctl.protocol.deletion import LossReply
from rwkvctl.protocol.gpus import GpuHistoryReply, GpusChangedReply, GpusReply
from rwkvctl.protocol.notify import NotifyReply, NotifyTestReply
from rwkvctl.protocol.operation import PausesReply
from rwkvctl.protocol.recipes import RecipePlanReply, RecipeReply, RecipesReply, RewriteReply
from rwkvctl.protocol.record import JobLogReply
from rwkvctl.protocol.replies import (
    BenchmarksReply,
    ChangedReply,
    CompareReply,
    DispatchReply,
    EndpointsReply,
    ExchangeReply,
    ImportReply,
    JobReply,
    JobsReply,
    JudgeReply,
    ModelsReply,
    OutlineReply,
    PlanReply,
    PromotionReply,
    ReviewReply,
    SameReply,
    SamplesReply,
    ScoresReply,
    SearchReply,
    StatusReply,
    SuitesReply,
)
from rwkvctl.protocol.service import ConfigReply, ReloadReply
from rwkvctl.protocol.training.baselines import BaselineReply, BaselinesReply
from rwkvctl.protocol.training.harnesses import HarnessesReply, HarnessTasksReply
from rwkvctl.protocol.training.orders import OrderReply
from rwkvctl.protocol.training.watches import WatchesReply, WatchReply
from rwkvctl.protocol.zombies import ReapReply, ZombiesReply
from rwkvctl.settings.fields import Settings
from rwkvctl.text.quantities import count, duration, percent, size

ELSEWHERE: Final = {
    "data list", "data rows", "weights list", "weights download",  # programs of their own, by `text.tab_lines` too
    "service install", "service uninstall", "service status", "doctor", "version", "config show",  # read this machine
    "status --watch", "dispatch --wait", "watch wait",
}  # fmt: skip
TEXT: Final = {
    "backup", "benchmarks diff", "benchmarks show", "completion", "completion words", "daemon", "data label",
    "data own", "data prepare", "decontaminate", "endpoints retry", "engine serve", "engine verify", "export",
    "feedback", "harness build", "help",
    "judge retry", "logs", "man", "metrics", "migrate", "rebuild", "recipe delete", "recipe export", "recipe verify",
    "report", "restore", "review mark", "samples diff", "serve", "tui", "weights inspect", "weights merge",
    "watch remove", "weights show", "weights verify",
}  # fmt: skip
"""Verbs that have no table."""
VERBS: Final = {
    "baseline": BaselinesReply, "baseline pin m": BaselinesReply, "baseline unpin": BaselinesReply,
    f"baseline add m --from {Path(__file__).with_name('given_scores.csv')}": BaselineReply,
    "audit": AuditReply, "benchmarks": BenchmarksReply, "compare a b": CompareReply,
    "compare a b --flips": CompareReply, "config show --daemon": ConfigReply, "dispatch --plan x": DispatchReply,
    "delete j1 --yes": ChangedReply, "undelete j1": ChangedReply,
    "prune --older-than 1d --yes": ChangedReply, "drain": PausesReply, "gate a --baseline b": CompareReply,
    "gpus": GpusReply,
    "gpus drain 0 --reason x": GpusChangedReply, "gpus forget 0": GpusChangedReply,
    "gpus history": GpuHistoryReply, "gpus quarantine 0 --reason x": GpusChangedReply,
    "gpus release 0": GpusChangedReply, "gpus reserve 0 --for x": GpusChangedReply,
    "gpus undrain 0": GpusChangedReply, "gpus unquarantine 0": GpusChangedReply, "hold j1": ChangedReply,
    "harness": HarnessesReply, "harness tasks lm-eval": HarnessTasksReply,
    "import /x": ImportReply, "job-log": JobLogReply, "job-log --all": JobLogReply, "jobs": JobsReply,
    "endpoints": EndpointsReply, "judge": JudgeReply, "models": ModelsReply, "notify": NotifyReply,
    "notify test": NotifyTestReply, "order j1": OrderReply,
    "pause j1": PausesReply, "priority j1 3": ChangedReply, "queue": PlanReply, "reap 7": ReapReply,
    f"recipe check {__file__}": RecipePlanReply, "recipe list": RecipesReply, "recipe pause r1": RecipeReply,
    "recipe resume r1": RecipeReply,
    f"recipe run {__file__}": RecipeReply, "recipe show r1": RecipeReply, "recipe stop r1": RecipeReply,
    "rewrite j1": RewriteReply,
    "regrade j1": ChangedReply, "release j1": ChangedReply, "reload": ReloadReply, "resume j1": ChangedReply,
    "resume --queue": PausesReply, "retry j1": ChangedReply, "review": ReviewReply, "samples j1": SamplesReply,
    "samples counts j1": OutlineReply, "samples exchange j1 7": ExchangeReply,
    "samples same j1 --row 1": SameReply, "scores": ScoresReply, "scores show j1": JobReply,
    "search j1": SearchReply, "search select m": PromotionReply, "show j1": JobReply, "status": StatusReply,
    "stop j1 --timeout 0": ChangedReply, "suites": SuitesReply,
    "suites accuracy": SuitesReply, "watch": WatchesReply, "watch add /runs/x": WatchReply,
    "watch pause w1": WatchReply,
    "watch resume w1": WatchReply, "watch retry w1": WatchReply,
    "watch show w1": WatchReply, "watch skip w1 a.pth": WatchReply, "zombies": ZombiesReply, "zombies 7": ZombiesReply,
    "events": StatusReply,
}  # fmt: skip
DRESSED: Final = re.compile(
    r"[+-]?[\d.,]+ ?%|.*±.*|[+-]?\d{1,3}(,\d{3})+(\.\d+)?|[\d.]+ ?([KMGT]i)?B|\d+s|\d+m\d\ds|\d+h\d\dm|\d+d\d\dh"
    r"|[\d.,]+/[\d.,]+.*|\[?[+-]?[\d.]+[–,] ?[+-]?[\d.]+\]?|–"
)
"""A number with a unit, a sign of per cent, separators of thousands, an interval, or a dash in its place."""


def made(struct: type[msgspec.Struct]) -> Any:
    """A reply of which every field holds something, as JSON has it."""
    reply = {field.encode_name: value_of(field.type) for field in inspect.type_info(struct).fields}  # type: ignore[attr-defined]
    if struct is OutlineReply:
        reply |= {"verdicts": "a" * 1500, "subject_of": [0] * 1500, "next": -1}
    if struct is JobLogReply:
        reply["next"] = 0
    if "looking" in reply:
        reply["looking"] = type(reply["looking"])()  # it is all there
    if "stale_since" in reply:
        reply["stale_since"] = ""  # nothing is decided by old news
    return reply


def value_of(kind: Any) -> Any:
    """Something that a field of this type may hold; numbers are such that people would see them dressed."""
    match kind:
        case inspect.StructType():
            return {field.encode_name: value_of(field.type) for field in kind.fields}
        case inspect.UnionType():
            return value_of(next(part for part in kind.types if not isinstance(part, inspect.NoneType)))
        case inspect.ListType() | inspect.VarTupleType() | inspect.CollectionType():
            return [value_of(kind.item_type)]
        case inspect.TupleType():
            return [value_of(part) for part in kind.item_types]
        case inspect.DictType():
            return {"accuracy": value_of(kind.value_type)}
        case inspect.LiteralType():
            return kind.values[0]
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 1_234_567
        case inspect.FloatType():
            return 1234.5678
    return "accuracy"


class Daemon:
    """Answers everything with one reply."""

    remote = "elsewhere"

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    def get(self, route: str, *_: object, **__: object) -> Answer:
        reply = dict(self.reply)
        reply.pop("left", None)  # nothing is: or it would be asked again and again
        if route.endswith("/history"):
            reply |= {"since": 0, "until": 20, "step_s": 20}
        if route.endswith("/config"):
            reply |= {"items": [{"name": "a", "value": "1", "origin": "x", "help": "y"}]}
        if "provenance" in str(reply) and "item" in reply:
            reply["item"]["score"]["provenance"] = {
                "groups": {"algebra": {"value": 0.123, "rows": 12345}}, "macro": 0.5, "routes": {"boxed": 12345},
                "curves": {"pass": {"1": 0.25, "2": 0.5}}, "seed": 7, "settings": {"k": "2"},
            }  # fmt: skip
        return Answer(b"{}", reply)

    def post(self, route: str, *_: object, **__: object) -> Answer:
        return Answer(b"{}", made(LossReply)) if route == "/v1/loss" else self.get(route)

    def stream(self, *_: object, **__: object) -> list[bytes]:
        return [b'{"seq": 1234567, "at": "2026-11-21T05:13:34Z", "kind": "job.state", "job": "j1", "text": "a\\tb"}']


def tsv(line: str, reply: Any) -> str:
    """What a verb writes into a pipe."""
    verb = find(line.split())
    assert verb is not None
    values, _ = arguments(verb, line.split()[len(verb.words.split()) :])
    context = Context(Terminal({}, io.StringIO(), io.StringIO()), {}, "tsv")
    vars(context).update(
        client=Daemon(reply), config=SimpleNamespace(home="/h", weights_dir="/h/weights", settings=Settings())
    )
    context.change = lambda *_, **__: context.client.post("/", {})  # type: ignore[method-assign]
    verb.run(context, **values)
    out = context.terminal.out
    assert isinstance(out, io.StringIO)
    return out.getvalue()


def test_every_verb_is_known_here() -> None:
    tried = {verb.words for line in [*VERBS, *ELSEWHERE] if (verb := find(line.split()))}
    assert tried | TEXT == {verb.words for verb in load_all()}


@pytest.mark.parametrize("line", VERBS)
def test_a_pipe_gets_one_header_and_plain_numbers(line: str) -> None:
    header, *rows = tsv(line, made(VERBS[line])).removesuffix("\n").split("\n")
    assert rows, header
    titles = header.split("\t")
    assert len(set(titles)) == len(titles), titles
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9 /_-]*", title) for title in titles), titles
    for row in rows:
        cells = row.split("\t")
        assert len(cells) == len(titles), (header, row)
        assert not [(title, cell) for title, cell in zip(titles, cells, strict=True) if DRESSED.fullmatch(cell)]
    if titles[0] == "table":
        assert all(row.split("\t")[0] for row in rows)


def test_a_page_that_is_drawn_again_is_no_table() -> None:
    with pytest.raises(UsageError, match="cannot write tsv"):
        tsv("status --watch", {})


def test_amounts_are_plain_in_a_pipe_and_dressed_for_people() -> None:
    cells = [count(1319), percent(0.7491), size(3 * 2**30), duration(9660.5), Cell(count(2500), "bold"), percent(None)]
    table = Table([Column(str(number)) for number in range(len(cells))], [cells])
    assert separated(table)[1].split("\t") == ["1319", "0.7491", "3221225472", "9660.5", "2500", ""]
    assert cells[:4] == ["1,319", "74.9", "3.0 GiB", "2h41m"]


def test_several_tables_are_one() -> None:
    one = Table([Column("ID"), Column("N", name="count")], [["a", count(1)]], name="first")
    other = Table([Column("ID"), Column("WHY")], [["b", "so"]], name="second")
    assert separated(one, other) == ["table\tid\tcount\twhy", "first\ta\t1\t", "second\tb\t\tso"]
    assert separated(one, other._replace(rows=[])) == ["table\tid\tcount\twhy", "first\ta\t1\t"]
