"""Answers about the checkpoints and the benchmarks of this node."""

from functools import partial

from rwkv_daemon.catalogue import contents
from rwkv_daemon.catalogue.checkpoint_order import with_lineage
from rwkv_daemon.catalogue.contents import NodeBenchmarks
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.compare.pinned_baselines import baseline_of, pins_of
from rwkv_daemon.rules.plan import SelectionError, rows_within
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.store.queries.comparing import first_scores
from rwkv_data.definition.suites import Suite
from rwkvctl.protocol.replies import BenchmarksReply, ModelsReply, SuitesReply
from rwkvctl.protocol.requests import ModelsRequest, Selection
from rwkvctl.protocol.views import SuiteKind, SuiteView


async def models(records: Records, engines: Engines, catalogue: NodeCatalogue, request: ModelsRequest) -> ModelsReply:
    """Return the checkpoints of the weights folder and the models behind endpoints; with `scored` also models with
    scores, in the order of their lineage."""
    on_disk = contents.checkpoints(records.config.weights_dir)
    found = await contents.model_facts(records.store, on_disk, catalogue.settling)
    numerics = engines.numerics("", records.config)
    views = [contents.model_view(*one, numerics) for one in found] + catalogue.endpoints.views()
    if not request.scored:
        return ModelsReply(items=tuple(views))
    pinned = partial(baseline_of, await pins_of(records.store))
    scores = await first_scores(records.store)
    given = {name for name, first in scores.items() if first.given}
    ordered = with_lineage(views, {name: first.job for name, first in scores.items()}, pinned, given)
    return ModelsReply(items=tuple(ordered))


def benchmarks(records: Records, catalogue: NodeCatalogue) -> BenchmarksReply:
    """Return every benchmark, and whether its rows are prepared."""
    known = catalogue.benchmarks
    items = (contents.benchmark_view(one, records.config.data_dir, known.judge) for one in known.all().values())
    return BenchmarksReply(items=tuple(items))


def suites(catalogue: NodeCatalogue) -> SuitesReply:
    """Return every suite, and what it measures on this node."""
    known = catalogue.benchmarks
    return SuitesReply(items=tuple(suite_view(known, suite) for suite in known.suites.values()))


def suite_view(benchmarks: NodeBenchmarks, suite: Suite) -> SuiteView:
    """Return a suite with its kinds as they are now."""
    selection, kinds, problem = benchmarks.with_limit(Selection(suite=suite.name)), tuple[SuiteKind, ...](), ""
    try:
        found = contents.kind_facts(selection, benchmarks)
        kinds = tuple(
            SuiteKind(
                benchmark=one.benchmark, kind=one.kind, rows=rows_within(selection, one.rows),
                problem=one.rows_problem, settings=dict(one.settings), search=one.searches,
            )
            for one in found
        )  # fmt: skip
    except SelectionError as error:
        problem = str(error)
    return SuiteView(
        name=suite.name, description=suite.description, limit=suite.limit, kinds=kinds, problem=problem,
        search_models=suite.search.models if suite.search else (),
        search_newest=suite.search is not None and suite.search.newest,
        objective=tuple(" ".join(filter(None, member)) for member in suite.objective), hold_back=suite.hold_back,
    )  # fmt: skip
