"""What a suite selects: its kinds, and the models whose settings it searches for. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from rwkv_daemon.rules.plan import ModelFact, OfferedKind, SelectionError, matches, newest_data
from rwkv_data.definition.suites import SEARCH_OF, Suite
from rwkvctl.protocol.requests import Selection


def kinds_of(suite: Suite, selection: Selection, offers: Sequence[OfferedKind]) -> set[tuple[str, str]]:
    """Return the (benchmark, kind) of a suite. Of a kind with and one without a judge it is the one that the node would
    measure, unless the selection skips it, or names the other. Raises SelectionError if one of its benchmarks does not
    exist any more."""
    known = {(offer.benchmark, offer.kind) for offer in offers}
    benchmarks = {benchmark for benchmark, _ in known}
    gone = {
        ".".join(filter(None, one))
        for one in suite.members
        if one not in known and (one.kind or one.benchmark not in benchmarks)
    }
    if gone:
        raise SelectionError(f"--suite {suite.name}: there is no {', '.join(sorted(gone))} any more.")
    meant = [offer for offer in offers if is_meant(suite, offer)]
    left = [offer for offer in meant if not {offer.kind, offer.job} & {*selection.skip_jobs}]
    found = [offer for offer in meant if not is_replaced(suite, selection, offer, left)]
    searches = set(searches_of(suite, [(offer.benchmark, offer.kind) for offer in found if offer in left]))
    return {(offer.benchmark, offer.kind) for offer in found} | (searches & known)


def is_meant(suite: Suite, offer: OfferedKind) -> bool:
    """Whether a suite has a kind, or the one that takes its place."""
    if not suite.members and (offer.builtin or offer.training):
        return False
    return suite.means(offer.benchmark, offer.kind, profile=offer.profile, default=offer.default)


def is_replaced(suite: Suite, selection: Selection, offer: OfferedKind, left: Iterable[OfferedKind]) -> bool:
    """Whether another kind of the suite, of the same prompts, is measured instead: neither the suite nor the selection
    names this one."""
    if not offer.instead or (offer.benchmark, offer.kind) in suite.members or offer.kind in selection.only_jobs:
        return False
    return any((one.benchmark, one.kind) == (offer.benchmark, offer.instead) for one in left)


def searches_of(suite: Suite, measured: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the kinds that would search for the settings of the measured ones, if a suite searches."""
    if suite.search is not None:
        within = suite.search.benchmarks
        yield from ((name, SEARCH_OF + kind) for name, kind in measured if not within or name in within)


def searched_models(suite: Suite | None, models: Sequence[ModelFact]) -> Sequence[ModelFact]:
    """Return the models, of those that are measured, that kinds which search for settings are asked of."""
    if suite is None or suite.search is None:
        return models
    found = [model for model in models if any(matches(model, glob) for glob in suite.search.models)]
    return newest_data(found) if suite.search.newest else found
