"""Compare logits and greedy ids of the timed graphs with the CPU's fp32, so that no wrong kernel is measured."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from speed.profile_rig import MeasuredModel, ProfileRig
from speed.steady import engine, prompt
from torch import Tensor

from rwkv_engine.scheduling.tasks import Result
from rwkv_engine.verify.checks import MOST_KL
from rwkv_engine.verify.oracle import agreement, reference_logits
from rwkv_weights.formats.load import Checkpoint
from rwkvctl.protocol.engine import Generated, GenerateItem, Sampling, Stops
from rwkvctl.protocol.numerics import Numerics

NEAR = 0.03  # for logits of spread 1: two that are closer may swap in fp16


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result for one profile: `same` of `drawn` greedy ids are the reference's best, `near` are close to it; the
    rest is wrong."""

    kl: float
    relative: float
    same: int
    near: int
    drawn: int

    @property
    def good(self) -> bool:
        return self.kl <= MOST_KL[True] and self.same + self.near == self.drawn

    def __str__(self) -> str:
        verdict = "ok" if self.good else "FAIL"
        return (
            f"KL {self.kl:.1e} nats a token, relative {self.relative:.1e}; greedy ids: {self.same} of {self.drawn} the "
            f"same, {self.near} within {NEAR} of the best; {verdict}"
        )


def on_cpu(found: Checkpoint) -> Checkpoint:
    """Return a copy of the checkpoint on the CPU, for the reference."""
    return Checkpoint(found.path, found.dims, {key: tensor.cpu() for key, tensor in found.tensors.items()})


def check(
    subject: MeasuredModel,
    made: Mapping[Numerics, ProfileRig],
    found: Checkpoint,
    batches: Sequence[int],
    long: int,
    new: int,
) -> dict[Numerics, GateResult]:
    """Check every profile: a prompt of `long` tokens in one step, and greedy samples at every batch size in the first
    and the last slot. `found`: the checkpoint on the CPU."""
    draw = random.Random(11)
    vocabulary = subject.compiler.tokenizer.size
    ids = [0, *prompt(draw, vocabulary, long - 1)]
    probes = [prompt(draw, vocabulary, length) for length in (max(2, long // 8), max(1, long // 16))]
    reference = reference_logits(found, ids)
    known: dict[tuple[int, ...], Tensor] = {}
    checked = {}
    for name, rig in made.items():
        distance = agreement(_at_once(rig, ids), reference)
        same = near = drawn = 0
        for batch in batches:
            for answer in _greedy(subject, rig, batch, probes, new):
                gaps = _gaps(found, known, answer)
                same += int((gaps == 0).sum())
                near += int(((gaps > 0) & (gaps <= NEAR)).sum())
                drawn += new  # an answer that ended early has too few
        checked[name] = GateResult(distance.kl, distance.relative, same, near, drawn)
    return checked


@torch.inference_mode()
def _at_once(rig: ProfileRig, ids: Sequence[int]) -> Tensor:
    """Return the logits of every position of a prompt fed in one step."""
    runner = rig.runner
    runner.pool.clear(0)
    residual = runner.prefill.feed([(0, ids)])
    out = torch.empty(len(ids), runner.model.dims.vocabulary, device=residual.device)
    return runner.model.logits(residual, out).cpu()


def _greedy(
    subject: MeasuredModel, rig: ProfileRig, batch: int, probes: Sequence[tuple[int, ...]], new: int
) -> list[Generated]:
    """Return the probes' samples, in the first and the last slot among other prompts."""
    answers: list[Result] = []
    draw = random.Random(batch)
    others = [prompt(draw, subject.compiler.tokenizer.size, draw.randrange(1, 9)) for _ in range(batch - 2)]
    prompts = [probes[0], *others, *probes[1:]] if batch > 1 else [probes[0]]
    made = engine(rig, batch)
    for place, ids in enumerate(prompts):
        item = GenerateItem(
            id=str(place), ids=ids, sampling=Sampling(max_tokens=new), stops=Stops(end_of_text=False)
        )  # fmt: skip
        made.scheduler.submit(subject.compiler.generate(item, answers.append))
    while not made.scheduler.idle:
        made.step()
    wanted = {"0", str(len(prompts) - 1)}
    return [answer for answer in answers if isinstance(answer, Generated) and answer.id in wanted]


def _gaps(found: Checkpoint, known: dict[tuple[int, ...], Tensor], answer: Generated) -> Tensor:
    """Return for each drawn id how far the reference's logit of it is below its best logit."""
    if answer.error:
        return torch.empty(0)
    whole = (*answer.prompt_ids, *answer.ids)
    if whole not in known:
        known[whole] = reference_logits(found, whole[:-1])[len(answer.prompt_ids) - 1 :]
    logits = known[whole]
    return logits.max(-1).values - logits.gather(1, torch.tensor(answer.ids)[:, None])[:, 0]
