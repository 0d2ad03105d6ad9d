"""The meaning of metric names: "accuracy", "avg@K", "pass@J", "maj@J", "pass^J", the name of a part of the grade, or a
measure of the whole corpus."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final, Literal, NamedTuple

from rwkv_data.graders.vote import vote
from rwkv_data.scoring import statistics
from rwkv_data.scoring.statistics import Estimate

Unit = Literal["share", "bits", "perplexity", "points"]


class Sample(NamedTuple):
    """A graded sample as the score uses it. `stop` is `Kind.stop(answer)`; the other fields are the Grade's."""

    row: int
    repeat: int
    value: float | None
    stop: str
    extracted: str | None
    reason: str
    route: str = ""
    parts: Mapping[str, float] = {}


SamplesByRow = Sequence[Sequence[Sample]]
"""Samples by row, each row's in the order of its repeats."""


class CorpusMetric(NamedTuple):
    """A metric that is a function of the parts of all samples, summed."""

    of: Callable[[Mapping[str, float]], float]
    unit: Unit = "share"


def _nats(sums: Mapping[str, float]) -> float:
    return sums["nats"] if "nats" in sums else -sums["logprob"]


def _bleu(sums: Mapping[str, float]) -> float:
    from rwkv_data.graders import translation

    return translation.corpus([sums])["bleu"]


def _chrf(sums: Mapping[str, float]) -> float:
    from rwkv_data.graders import translation

    return translation.corpus([sums])["chrf++"]


CORPUS: Final[dict[str, CorpusMetric]] = {
    "bits_per_byte": CorpusMetric(lambda sums: _nats(sums) / math.log(2) / max(1.0, sums["bytes"]), "bits"),
    "word_perplexity": CorpusMetric(
        lambda sums: math.exp(min(700.0, _nats(sums) / max(1.0, sums["words"]))), "perplexity"
    ),
    "perplexity": CorpusMetric(lambda sums: math.exp(min(700.0, _nats(sums) / max(1.0, sums["tokens"]))), "perplexity"),
    "inst_strict": CorpusMetric(lambda sums: sums["followed_strict"] / max(1.0, sums["instructions"])),
    "inst_loose": CorpusMetric(lambda sums: sums["followed_loose"] / max(1.0, sums["instructions"])),
    "win_rate": CorpusMetric(lambda sums: sums["won"] / max(1e-9, sums["weight"])),
    "bleu": CorpusMetric(_bleu, "points"),
    "chrf": CorpusMetric(_chrf, "points"),
}


def unit(name: str) -> Unit:
    """Return the unit of a metric: a share of one, bits, a perplexity, or points of a hundred."""
    return CORPUS[name].unit if name in CORPUS else "share"


def measure(name: str, rows: SamplesByRow) -> Estimate:
    """Return a metric over graded samples, equally many a row. Raises ValueError for an unknown name."""
    if name in CORPUS:
        corpus = CORPUS[name]
        return statistics.corpus_estimate(corpus.of, [_summed(row) for row in rows], share=corpus.unit == "share")
    return statistics.estimate([per_row(name, row) for row in rows])


def per_row(name: str, row: Sequence[Sample]) -> float:
    """Return a metric's value for one row. Raises ValueError for an unknown name."""
    values = [sample.value or 0.0 for sample in row]
    if name == "accuracy":
        return fmean(values)
    if repeated := _REPEATED.fullmatch(name):
        k = max(1, math.floor(float(repeated["k"])))
        return _of_repeats(repeated["what"] + repeated["mark"], row, values, k)
    if all(name in sample.parts for sample in row):
        return fmean(sample.parts[name] for sample in row)
    raise ValueError(f"no metric is called {name!r}")


_REPEATED: Final = re.compile(r"(?P<what>avg|pass|maj)(?P<mark>[@^])(?P<k>\d+(?:\.\d+)?)", re.ASCII)


def _of_repeats(what: str, row: Sequence[Sample], values: Sequence[float], k: int) -> float:
    right = sum(value == 1 for value in values)
    if what == "avg@":
        return statistics.avg_at_k(values, k)
    if what == "maj@":
        return statistics.maj_at_k([vote(sample.value, sample.extracted) for sample in row], values, k)
    return statistics.pass_at_k(len(row), right, k) if what == "pass@" else statistics.pass_hat_k(len(row), right, k)


def curves(rows: SamplesByRow, repeats: int) -> dict[str, dict[str, float]]:
    """Return avg@k, pass@k, pass^k and maj@k for k = 1, 2, 4 ... up to the repeats."""
    ks = [1 << power for power in range(repeats.bit_length()) if 1 << power <= repeats]
    ks += [repeats] if repeats not in ks else []
    names: dict[str, str] = {"avg": "@", "pass": "@", "pass^": "^", "maj": "@"}
    return {
        name: {str(k): measure(f"{name.rstrip('^')}{mark}{k}", rows).value for k in ks} for name, mark in names.items()
    }


def _summed(row: Iterable[Sample]) -> dict[str, Any]:
    sums: dict[str, float] = {}
    for sample in row:
        for name, amount in sample.parts.items():
            sums[name] = sums.get(name, 0.0) + amount
    return sums
