"""Check that answers have the same bits in any batch, slot, chunking and engine, with and without the cache."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rwkv_engine.scheduling.tasks import Result
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.verify.trial import EngineFactory, Item, TrialSetting, run
from rwkvctl.protocol.engine import Generated, GenerateItem, Sampling, Scored, ScoreItem, Stops

BATCHES = (1, 2, 3, 7, 16, 33, 128, 512, 1024)
CHUNKS = (64, 16, 7, 33, 128)
LENGTHS = (1, 2, 15, 16, 17, 40, 65, 130)
PROBES = len(LENGTHS)  # of generation, and as many of choices
NEW_TOKENS = 6
MEAN_PROMPT = 9
SAMPLED = Sampling(max_tokens=NEW_TOKENS, temperature=1.0, top_p=0.9, presence=0.4, frequency=0.2, decay=0.99)
GREEDY = Sampling(max_tokens=NEW_TOKENS, logprobs=2)
OPEN = Stops(end_of_text=False)

ProbeAnswers = dict[tuple[str, int], object]


def settings(largest: int, *, gpu: bool) -> Iterator[TrialSetting]:
    """Yield settings of every batch size up to `largest`; the other options cycle through their values."""
    for place, batch in enumerate(size for size in BATCHES if size <= largest):
        chunk = max(CHUNKS[place % len(CHUNKS)], MEAN_PROMPT * batch)  # or a large batch would never be full
        yield TrialSetting(batch, chunk, cached=bool(place % 2), backwards=bool(place % 3))
    yield TrialSetting(16, 16, engines=4)
    yield TrialSetting(16, 9, cached=True)
    if gpu:
        yield TrialSetting(16, 64, graphs=False)


def probes(vocabulary: int) -> list[Item]:
    """Return the items whose answers are compared: prompts of many lengths; greedy, sampled and forked samples;
    choices."""
    draw = random.Random(7)
    found: list[Item] = []
    for place, length in enumerate(LENGTHS):
        ids = tuple(draw.randrange(1, vocabulary - 1) for _ in range(length))
        forks = 3 if place % 4 == 2 else 1
        sampling = SAMPLED if place % 2 else GREEDY
        keys = tuple(place * 100 + fork for fork in range(forks))
        found.append(GenerateItem(id=f"probe {place}", ids=ids, n=forks, keys=keys, sampling=sampling, stops=OPEN))
        choices = (" A", " B", " the answer")
        found.append(ScoreItem(id=f"choices {place}", context_ids=ids, continuations=choices))
    return found


def companions(count: int, vocabulary: int, seed: int) -> list[Item]:
    """Return items that fill the rest of a batch."""
    draw = random.Random(seed)
    return [
        GenerateItem(
            id=f"other {number}",
            ids=tuple(draw.randrange(1, vocabulary - 1) for _ in range(draw.randrange(1, 12))),
            sampling=SAMPLED,
            stops=OPEN,
        )
        for number in range(count)
    ]


def probe_answers(answers: Sequence[Result]) -> ProbeAnswers:
    """Return the parts of the probes' answers that must not change, by (id, index)."""
    return {
        (answer.id, getattr(answer, "index", 0)): compared_fields(answer)
        for answer in answers
        if not answer.id.startswith("other")
    }


def compared_fields(answer: Result) -> object:
    if isinstance(answer, Generated):
        return answer.ids, answer.logprobs, answer.stop, answer.error
    assert isinstance(answer, Scored)
    return answer.scores, answer.error


@dataclass(frozen=True, slots=True)
class Comparison:
    """A setting, its largest number of sequences in one step, and the probes whose answers differ from those alone."""

    setting: TrialSetting
    peak: int
    differing: list[str]


def answers_in(setting: TrialSetting, loaded: EngineFactory, compiler: Compiler) -> tuple[ProbeAnswers, int]:
    """Return the probes' answers in a setting, amid companions, and the largest number of sequences in one step. With
    the cache the probes are asked twice."""
    vocabulary = compiler.tokenizer.size
    asked = probes(vocabulary) * (2 if setting.cached else 1)
    others = companions(max(0, setting.batch * setting.engines * 5 // 4 - len(asked)), vocabulary, setting.batch)
    items = others[: len(others) // 2] + asked + others[len(others) // 2 :]
    found = run(loaded, compiler, setting, list(reversed(items)) if setting.backwards else items)
    return probe_answers(found.answers), found.peak


def comparisons(loaded: EngineFactory, compiler: Compiler, tried: Iterable[TrialSetting]) -> Iterator[Comparison]:
    """Compare the probes' answers in each setting with their answers alone."""
    alone, _ = answers_in(TrialSetting(), loaded, compiler)
    for setting in tried:
        there, peak = answers_in(setting, loaded, compiler)
        assert there.keys() == alone.keys()
        yield Comparison(
            setting, peak, [probe for (probe, index), answer in there.items() if answer != alone[probe, index]]
        )
