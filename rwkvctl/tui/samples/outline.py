"""What is known of every sample of a job without its texts: the verdict, whether it was cut off or is doubted. Pure.

Arrays and masks (a byte a sample, 1 where something holds), no objects: a hundred thousand samples are three megabytes,
and a filter over them takes a few milliseconds.
"""

from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import compress
from typing import Final, NamedTuple

from rwkvctl.protocol.replies import OutlineReply

REASONS: Final = (
    "right", "wrong", "no_answer", "timeout", "unjudged", "error", "dropped", "form", "unfaithful", "labelled",
)  # fmt: skip
OTHER: Final = len(REASONS)
"""The code of a reason that this console does not know."""

WORDS: Final = (*(reason.replace("_", " ") for reason in REASONS), "other")

CLASSES: Final[dict[str, frozenset[str]]] = {
    "wrong": frozenset({"wrong", "no_answer", "timeout"}),
    "no answer": frozenset({"no_answer"}),
    "no verdict": frozenset({"unjudged", "error", "form", "unfaithful"}),
    "right": frozenset({"right"}),
}
FLAGS: Final = ("cut off", "needs review")
FILTERS: Final = ("wrong", "no answer", "cut off", "no verdict", "needs review", "right")
"""What a list may be narrowed to by one key, in its order."""


class SampleGroup(NamedTuple):
    """Samples of one reason or subject: how many, and how they were graded."""

    name: str
    samples: int
    right: int
    wrong: int
    no_verdict: int

    @property
    def share(self) -> float | None:
        """Return the share of right samples among those with a verdict."""
        judged = self.right + self.wrong
        return self.right / judged if judged else None


class Outline:
    """The samples of a job in order of row and repeat. `next` is the cursor of what is still to come, -1 at the end."""

    def __init__(self) -> None:
        self.numbers, self.rows, self.repeats = array("q"), array("q"), array("l")
        self.codes, self.cut, self.doubted = bytearray(), bytearray(), bytearray()
        self.subjects: list[str] = []
        self.subject_of = array("l")
        self.next = -1
        self.begun = False

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def whole(self) -> bool:
        """Return whether the outline has every sample."""
        return self.begun and self.next < 0

    def take(self, reply: OutlineReply) -> bool:
        """Take in the next page. Returns whether it was the last."""
        codes = [REASONS.index(reason) if reason in REASONS else OTHER for reason in reply.reasons]
        table = bytes(codes[at - 97] if 0 <= at - 97 < len(codes) else OTHER for at in range(256))
        self.numbers.extend(reply.numbers)
        self.rows.extend(reply.rows)
        self.repeats.extend(reply.repeats)
        self.codes += reply.verdicts.encode("latin-1", "replace").translate(table)
        self.cut += flags(reply.numbers, reply.cut)
        self.doubted += flags(reply.numbers, reply.doubted)
        if reply.subjects:
            self.subjects = list(reply.subjects)  # all of the job's, in every page
            self.subject_of.extend(reply.subject_of)
        self.next, self.begun = reply.next, True
        return self.whole

    def place(self, number: int) -> int:
        """Return the index of a sample; -1 if it is unknown."""
        try:
            return self.numbers.index(number)
        except ValueError:
            return -1

    def mask(self, name: str) -> bytes:
        """Return the mask of the samples in a class of `CLASSES`, with a flag, or with a reason."""
        if name in FLAGS:
            return bytes(self.cut if name == "cut off" else self.doubted)
        wanted = CLASSES.get(name, frozenset({name}))
        known = bytes(code < OTHER and REASONS[code] in wanted for code in range(256))
        return bytes(self.codes.translate(known))

    def of_subject(self, name: str) -> bytes:
        """Return the mask of a subject's samples; all 0 if the subject is unknown."""
        place = self.subjects.index(name) if name in self.subjects else -1
        return bytes(map(place.__eq__, self.subject_of))

    def among(self, numbers: frozenset[int] | set[int]) -> bytes:
        """Return the mask of the samples with one of these numbers."""
        return bytes(map(numbers.__contains__, self.numbers))

    def count(self, name: str) -> int:
        """Return how many samples are in a class or have a flag."""
        return self.mask(name).count(1)

    def by_reason(self) -> list[SampleGroup]:
        """Return the samples grouped by reason, the largest group first."""
        found = Counter(self.codes)
        return [group(WORDS[code], Counter({code: count})) for code, count in found.most_common()]

    def by_subject(self) -> list[SampleGroup]:
        """Return the samples grouped by subject, the worst first."""
        found: dict[int, Counter[int]] = {}
        for (subject, code), count in Counter(zip(self.subject_of, self.codes, strict=False)).items():
            found.setdefault(subject, Counter())[code] += count
        groups = [group(self.subjects[subject], codes) for subject, codes in found.items()]
        return sorted(groups, key=lambda one: (one.share is None, one.share or 0.0, one.name))


def flags(numbers: Sequence[int], found: Sequence[int]) -> bytes:
    """Return a mask: a byte for each number, 1 if it is among those found."""
    there = frozenset(found)
    return bytes(map(there.__contains__, numbers)) if there else bytes(len(numbers))


def group(name: str, codes: Counter[int]) -> SampleGroup:
    """Return a group with its counts by verdict; `codes` counts samples by the code of their reason."""

    def of(kind: str) -> int:
        return sum(count for code, count in codes.items() if code < OTHER and REASONS[code] in CLASSES[kind])

    return SampleGroup(name, codes.total(), of("right"), of("wrong"), of("no verdict"))


def both(one: bytes, other: bytes) -> bytes:
    """Return the bitwise AND of two masks, as long as the shorter one."""
    size = min(len(one), len(other))
    joint = int.from_bytes(one[:size], "big") & int.from_bytes(other[:size], "big")
    return joint.to_bytes(size, "big")


def mask_all(outline: Outline) -> bytes:
    """Return a mask that selects every sample."""
    return b"\1" * len(outline)


def places(mask: bytes) -> list[int]:
    """Return the indices of the samples that a mask selects."""
    return list(compress(range(len(mask)), mask))


def nearest(order: Sequence[int], start: int, by: int, mask: bytes) -> int:
    """Return the next place in an order after (or before) `start` whose sample is in the mask; -1 if there is none."""
    steps = range(start + 1, len(order)) if by > 0 else range(min(start, len(order)) - 1, -1, -1)
    return next((at for at in steps if mask[order[at]]), -1)
