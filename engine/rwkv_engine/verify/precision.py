"""The cost of states in fp16 in long texts: the loss by position, compared with the same profile with fp32 states."""

from collections.abc import Sequence

from rwkv_engine.scheduling.tasks import Echo, GenerateTask
from rwkv_engine.serving.compile_requests import Compiler
from rwkv_engine.verify.trial import EngineFactory, TrialSetting, run, run_tasks
from rwkvctl.protocol.engine import Generated, GenerateItem, Sampling, Stops

TEXTS = 4
BIN_TOKENS = 128


def texts(loaded: EngineFactory, compiler: Compiler, tokens: int) -> list[tuple[int, ...]]:
    """Return texts that the model itself samples at temperature 1, which are likely whatever it was trained on."""
    item = GenerateItem(
        id="text", ids=(), n=TEXTS, keys=tuple(range(TEXTS)),
        sampling=Sampling(max_tokens=tokens, temperature=1.0), stops=Stops(end_of_text=False),
    )  # fmt: skip
    answers = run(loaded, compiler, TrialSetting(TEXTS), [item]).answers
    return [answer.ids for answer in answers if isinstance(answer, Generated) and not answer.error]


def losses(loaded: EngineFactory, compiler: Compiler, written: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return -log p of every token of every text."""
    tasks = [_scoring(compiler, ids) for ids in written]
    run_tasks(loaded, TrialSetting(TEXTS), tasks)
    return [[-score.logprob for _, score in sorted(task.scores.items())] for task in tasks]


def _scoring(compiler: Compiler, ids: Sequence[int]) -> GenerateTask:
    task = compiler.generate(GenerateItem(id="", ids=tuple(ids), sampling=Sampling(max_tokens=1)), lambda _: None)
    task.echo = Echo(1, 0)
    return task


def by_position(whole: Sequence[Sequence[float]], half: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean difference half - whole in each run of BIN_TOKENS positions, in nats a token."""
    gaps = [[b - a for a, b in zip(x, y, strict=True)] for x, y in zip(whole, half, strict=True)]
    longest = max(map(len, gaps))
    bins = [[gap for row in gaps for gap in row[at : at + BIN_TOKENS]] for at in range(0, longest, BIN_TOKENS)]
    return [sum(values) / len(values) for values in bins if values]
