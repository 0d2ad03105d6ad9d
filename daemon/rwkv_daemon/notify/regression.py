"""Whether a new score is a regression: the comparison of `rwkvctl compare`, with the rule of `rwkvctl gate`."""

from rwkv_daemon.catalogue.offered import NodeCatalogue
from rwkv_daemon.changes.records import Records
from rwkv_daemon.compare.comparisons import Comparisons
from rwkv_daemon.compare.pinned_baselines import pinned_for
from rwkv_daemon.compare.score_comparison import compare
from rwkv_daemon.notify.rules import Notice, made
from rwkv_daemon.store.queries.notifications import previous_version
from rwkvctl.protocol.errors import RefusedError
from rwkvctl.protocol.events import Event
from rwkvctl.protocol.requests import CompareRequest
from rwkvctl.protocol.views import ComparisonView
from rwkvctl.settings.notify import NotifyTarget

ALPHA = 0.05


async def regression(
    records: Records, catalogue: NodeCatalogue, comparisons: Comparisons, target: NotifyTarget, event: Event
) -> Notice | None:
    """Return the notice for a `job.score` event, if the score fell significantly and by more than the target's
    margin."""
    data = event.data
    provenance = data.get("provenance")
    if isinstance(provenance, dict) and "imported" in provenance:  # nothing was measured
        return None
    pinned = target.baseline or await pinned_for(records.store, str(data.get("model", "")))
    before = pinned or await previous_version(records.store, int(event.job[1:]))
    if not before:
        return None
    kinds, benchmarks = (str(data.get("kind", "")),), (str(data.get("benchmark", "")),)
    request = CompareRequest(a=before, b=event.job, benchmarks=benchmarks, kinds=kinds, alpha=ALPHA)
    try:
        items = (await compare(records, catalogue, comparisons, request)).items
    except RefusedError:  # the baseline has no such score to compare with
        return None
    worse = next((item for item in items if fell(item, target.margin)), None)
    if worse is None:
        return None
    text = f"{data.get('model')} {worse.benchmark} {worse.kind}: {in_words(worse)}, against {before}"
    found: dict[str, object] = {"job": event.job, "baseline": before, "a": worse.a, "b": worse.b, "p": worse.p}
    return made("regression", event, records.hostname, text, found)


def fell(item: ComparisonView, margin: float) -> bool:
    """Return whether the score is significantly worse, by more than the margin."""
    if item.verdict != "worse" or item.difference is None or item.difference.value is None:
        return False
    return abs(item.difference.value) > margin


def in_words(item: ComparisonView) -> str:
    """Return a comparison in words, such as `accuracy 0.741 after 0.803 (p 0.004)`, and what stands beside it, such as
    that only some rows were picked."""
    values = " after ".join("none" if value is None else f"{value:.3f}" for value in (item.b, item.a))
    noted = "".join(f"; {one}" for one in item.noted)
    return f"{item.metric or 'score'} {values}" + ("" if item.p is None else f" (p {item.p:.2g})") + noted
