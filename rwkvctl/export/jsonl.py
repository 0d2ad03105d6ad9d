"""Scores and samples as JSON lines, and samples as the chats that rwkv-skills' data lake takes."""

import json
from collections.abc import Iterable, Iterator

from rwkvctl.cli.client import Record

OF_SCORE = ("model", "benchmark", "kind", "version", "job")


def line(value: object) -> str:
    """Return a value as compact JSON on one line, with its newline."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def score_lines(scores: Iterable[Record]) -> Iterator[str]:
    """Return scores as JSON lines, unchanged from the reply of the daemon."""
    return (line(score) for score in scores)


def sample_lines(score: Record, samples: Iterable[Record]) -> Iterator[str]:
    """Samples with the names of what they belong to. Text of models is raw, as in every JSON of ours."""
    names = {name: score[name] for name in OF_SCORE}
    return (line(names | sample) for sample in samples)


def chat_lines(samples: Iterable[Record]) -> Iterator[str]:
    """A list a sample: `{"😺": prompt}`, `{"🤖": completion}` for every stage, in the order of stages."""
    return (line([*turns(sample)]) for sample in samples)


def turns(sample: Record) -> Iterator[dict[str, str]]:
    """Yield prompt and completion of each stage as `{"😺": prompt}` and `{"🤖": completion}`."""
    for stage in sample.get("stages", ()):
        yield {"😺": stage["prompt"]}
        yield {"🤖": stage["completion"]}
