"""Answers about the checkpoints and the benchmarks of this node."""

from rwkv_daemon.catalogue import contents
from rwkv_daemon.catalogue.checkpoint_order import with_lineage
from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.scheduling.live_engines import Engines
from rwkv_daemon.store.queries.comparing import first_scores
from rwkvctl.protocol.replies import BenchmarksReply, ModelsReply
from rwkvctl.protocol.requests import ModelsRequest


async def models(records: Records, engines: Engines, catalogue: NodeCatalogue, request: ModelsRequest) -> ModelsReply:
    """Return the checkpoints of the weights folder and the models behind endpoints; with `scored` also models with
    scores, in the order of their lineage."""
    on_disk = contents.checkpoints(records.config.weights_dir)
    found = await contents.model_facts(records.store, on_disk, catalogue.settling)
    numerics = engines.numerics("", records.config)
    views = [contents.model_view(*one, numerics) for one in found] + catalogue.endpoints.views()
    if not request.scored:
        return ModelsReply(items=tuple(views))
    return ModelsReply(items=tuple(with_lineage(views, await first_scores(records.store))))


def benchmarks(records: Records, catalogue: NodeCatalogue) -> BenchmarksReply:
    """Return every benchmark, and whether its rows are prepared."""
    known = catalogue.benchmarks
    items = (contents.benchmark_view(one, records.config.data_dir, known.judge) for one in known.all().values())
    return BenchmarksReply(items=tuple(items))
