"""The rules of docs/recipes.md once more, sentence by sentence, by loops over all samples: slow, short, and with none
of the product's functions. Where a pair is not made, the answer is None, whatever the reason."""

import hashlib
from fractions import Fraction


def before(one, other):
    """Per problem, graded samples by (completion tokens, job in the recipe, repeat)."""
    return one.tokens < other.tokens or (one.tokens == other.tokens and one.turn < other.turn)


def ordered(samples):
    """Without a verdict: no part."""
    found = []
    for sample in samples:
        if sample.value is not None:
            at = 0
            while at < len(found) and before(found[at], sample):
                at += 1
            found.insert(at, sample)
    return found


def correct(samples):
    return [sample for sample in ordered(samples) if sample.value >= 1]


def chooseable(samples):
    """Cut off: never chosen."""
    return [sample for sample in correct(samples) if sample.cut_off is False]


def hashed(*parts):
    return hashlib.sha256("\0".join(str(part) for part in parts).encode()).hexdigest()[:16]


def selected(rule, k, seed, pass_rate, row_id, samples):
    """The numbers of the selected samples, as a set."""
    judged, left, taken = ordered(samples), chooseable(samples), set()
    if pass_rate is not None:
        low, high = (Fraction(str(bound)) for bound in pass_rate)
        if not judged or not low <= Fraction(len(correct(samples)), len(judged)) <= high:
            return set()
    if rule == "all-correct":
        return {sample.number for sample in left}
    while left and len(taken) < k:
        best = left[0]
        for sample in left:
            better = {
                "first-correct": sample.turn < best.turn,
                "shortest-correct": before(sample, best),
                "longest-correct": before(best, sample),
                "k-correct": hashed("k-correct", seed, row_id, *sample.turn)
                < hashed("k-correct", seed, row_id, *best.turn),
            }[rule]
            best = sample if better else best
        left.remove(best)
        taken.add(best.number)
    return taken


def short_long(samples, min_gap=1):
    """Needs two correct samples of different length: chosen the shortest, rejected the longest; min_gap tokens."""
    best = None
    for chosen in chooseable(samples):
        for rejected in correct(samples):
            if chosen.tokens == rejected.tokens:
                continue
            if any(before(other, chosen) for other in chooseable(samples)):
                continue
            if any(before(rejected, other) for other in correct(samples)):
                continue
            if rejected.tokens - chosen.tokens >= min_gap:
                best = (chosen.number, rejected.number)
    return best


def silc(samples):
    """Rejected w = the shortest incorrect sample with a verdict; chosen = the shortest correct one with more tokens."""
    incorrect = [sample for sample in ordered(samples) if sample.value < 1]
    for w in incorrect[:1]:
        for sample in chooseable(samples):
            if sample.tokens > w.tokens:
                return sample.number, w.number
    return None
