"""Train the built-in checkpoint: a 0.95 M parameter RWKV-7 over bytes that adds and looks things up.

    python weights/train_builtin.py OUT.pth [--steps N] [--seed S] [--curve FILE.csv]

What it learns is what `demo_arith` and `demo_choice` ask, on the other side of their split. The forward pass below is
the trainer's own (differentiable, WKV in chunks); inference code never imports it, so a mistake here would show as a
score near zero rather than hide in both.

The chunked WKV follows the usual WY form: with a = -kk and b = kk * icl the state obeys
S_t = S_{t-1} (diag(w_t) + a_t b_t^T) + v_t k_t^T, and within a chunk the rank-one corrections are solved at once as a
unit lower triangular system. The log decay is at least -0.61 a step, so products over 16 steps stay within fp32.
"""

import argparse
import csv
import math
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rwkv_data.prepare import demo_rows

VOCAB, LAYERS, WIDTH, HEAD, LENGTH, BATCH, CHUNK = 257, 4, 128, 64, 32, 128, 16
RANKS = {"w": 16, "a": 16, "v": 16, "g": 32}
DECAY = math.exp(-0.5)
IGNORE = -100


class TimeMix(nn.Module):
    """RWKV-7 attention replacement of one layer, with BlinkDL's parameter names."""

    w1: Tensor
    w2: Tensor
    a1: Tensor
    a2: Tensor
    v1: Tensor
    v2: Tensor
    g1: Tensor
    g2: Tensor
    receptance: nn.Linear
    key: nn.Linear
    value: nn.Linear
    output: nn.Linear

    def __init__(self, layer: int) -> None:
        super().__init__()
        d, heads = WIDTH, WIDTH // HEAD
        ramp = torch.arange(d) / (d - 1)
        zigzag = (torch.arange(d) % HEAD) / (HEAD - 1) - 0.5
        depth = 1.0 - layer / LAYERS
        for name, power in {"r": 0.2, "w": 0.9, "k": 0.7, "v": 0.7, "a": 0.9, "g": 0.2}.items():
            setattr(self, f"x_{name}", nn.Parameter((1.0 - ramp ** (power * depth)).view(1, 1, d)))
        self.w0 = nn.Parameter(
            (-5.5 + 5.0 * ramp ** (0.85 + 0.5 * layer / LAYERS) + 2.5 * zigzag.abs() * zigzag).view(1, 1, d)
        )
        self.r_k = nn.Parameter(torch.full((heads, HEAD), -0.04))
        self.a0 = nn.Parameter((-0.2 + 0.3 * zigzag + 0.4 * ramp).view(1, 1, d))
        chains = ["w", "a", "g"] + (["v"] if layer else [])
        for name in chains:
            setattr(self, f"{name}1", nn.Parameter(torch.zeros(d, RANKS[name])))
            up = nn.init.orthogonal_(torch.empty(RANKS[name], d), gain=0.1 if name != "g" else 1.0)
            setattr(self, f"{name}2", nn.Parameter(up))
        nn.init.normal_(self.g1, std=d**-0.5)
        if layer:
            self.v0 = nn.Parameter((0.7 - 0.4 * ramp).view(1, 1, d))
        self.k_k = nn.Parameter((0.7 - 0.1 * ramp).view(1, 1, d))
        self.k_a = nn.Parameter(torch.full((1, 1, d), 1.02))
        for name, gain in {"receptance": 0.5, "key": 0.05, "value": 0.5, "output": 0.0}.items():
            linear = nn.Linear(d, d, bias=False)
            nn.init.uniform_(linear.weight, -gain * d**-0.5, gain * d**-0.5)
            setattr(self, name, linear)
        self.ln_x = nn.GroupNorm(heads, d, eps=64e-5)
        self.layer = layer

    def forward(self, x: Tensor, v_first: Tensor | None) -> tuple[Tensor, Tensor]:
        """[B, T, D] and the first layer's values -> the residual's increment and those values."""
        batch, length, d = x.shape
        dx = F.pad(x, (0, 0, 1, -1)) - x
        xr, xw, xk, xv, xa, xg = (x + dx * getattr(self, f"x_{n}") for n in "rwkvag")
        r, k, v = self.receptance(xr), self.key(xk), self.value(xv)
        log_w = -DECAY * torch.sigmoid(self.w0 + torch.tanh(xw @ self.w1) @ self.w2)
        icl = torch.sigmoid(self.a0 + xa @ self.a1 @ self.a2)
        gate = torch.sigmoid(xg @ self.g1) @ self.g2
        if v_first is None:
            v_first = v
        else:
            v = v + (v_first - v) * torch.sigmoid(self.v0 + xv @ self.v1 @ self.v2)
        heads = (batch, length, d // HEAD, HEAD)
        kk = F.normalize((k * self.k_k).view(heads), dim=-1, eps=1e-12)
        k = k * (1 + (icl - 1) * self.k_a)
        rh, kh, vh = r.view(heads), k.view(heads), v.view(heads)
        y = wkv_chunked(rh, log_w.view(heads), kh, vh, -kk, kk * icl.view(heads))
        y = self.ln_x(y.reshape(batch * length, d)).view(batch, length, d)
        y = y + ((rh * kh * self.r_k).sum(-1, keepdim=True) * vh).view(batch, length, d)
        return self.output(y * gate), v_first


class ChannelMix(nn.Module):
    """The relu-squared feed-forward of one layer."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        ramp = torch.arange(WIDTH) / (WIDTH - 1)
        self.x_k = nn.Parameter((1.0 - ramp ** ((1.0 - layer / LAYERS) ** 4)).view(1, 1, WIDTH))
        self.key = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.value = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        nn.init.uniform_(self.key.weight, -0.5 * WIDTH**-0.5, 0.5 * WIDTH**-0.5)
        nn.init.zeros_(self.value.weight)

    def forward(self, x: Tensor) -> Tensor:
        dx = F.pad(x, (0, 0, 1, -1)) - x
        mixed: Tensor = self.value(torch.relu(self.key(x + dx * self.x_k)) ** 2)
        return mixed


class Block(nn.Module):
    def __init__(self, layer: int) -> None:
        super().__init__()
        if layer == 0:
            self.ln0 = nn.LayerNorm(WIDTH)
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.att, self.ffn = TimeMix(layer), ChannelMix(layer)


class Model(nn.Module):
    """A whole RWKV-7 (x070) whose state dict is a BlinkDL checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(VOCAB, WIDTH)
        nn.init.uniform_(self.emb.weight, -0.1, 0.1)
        self.blocks = nn.ModuleList(Block(i) for i in range(LAYERS))
        self._layers: list[Block] = [block for block in self.blocks if isinstance(block, Block)]
        self.ln_out = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        nn.init.orthogonal_(self.head.weight, gain=0.5)

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self._layers[0].ln0(self.emb(ids))
        v_first = None
        for block in self._layers:
            step, v_first = block.att(block.ln1(x), v_first)
            x = x + step
            x = x + block.ffn(block.ln2(x))
        logits: Tensor = self.head(self.ln_out(x))
        return logits


def wkv_chunked(r: Tensor, log_w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """WKV-7 over [B, T, H, N] in chunks of CHUNK tokens (T a multiple of it), from a zero state."""
    batch, length, heads, size = r.shape
    chunks = length // CHUNK

    def split(x: Tensor) -> Tensor:
        return x.view(batch, chunks, CHUNK, heads, size).permute(1, 0, 3, 2, 4)

    r, log_w, k, v, a, b = map(split, (r, log_w, k, v, a, b))
    total = log_w.cumsum(-2)
    grow, shrink = total.exp(), (-total).exp()
    a_in, r_in, k_out, b_out = a * (total - log_w).exp(), r * grow, k * shrink, b * shrink
    below = torch.tril(torch.ones(CHUNK, CHUNK), -1)
    upto = torch.tril(torch.ones(CHUNK, CHUNK))
    eye = torch.eye(CHUNK)
    a_b, a_k = (a_in @ b_out.mT) * below, (a_in @ k_out.mT) * below
    r_k, r_b = (r_in @ k_out.mT) * upto, (r_in @ b_out.mT) * upto
    solve = torch.linalg.solve_triangular(eye - a_b, eye.expand_as(a_b), upper=False, unitriangular=True)
    state, outputs = r.new_zeros(batch, heads, size, size), []
    for i in range(chunks):
        u = solve[i] @ (a_in[i] @ state.mT + a_k[i] @ v[i])
        outputs.append(r_in[i] @ state.mT + r_k[i] @ v[i] + r_b[i] @ u)
        state = (state + v[i].mT @ k_out[i] + u.mT @ b_out[i]) * grow[i, ..., -1:, :]
    return torch.stack(outputs, 1).permute(0, 1, 3, 2, 4).reshape(batch, length, heads, size)


def encode(text: str) -> list[int]:
    """Return the ids of a text: byte b is id b + 1; id 0 ends a document."""
    return [byte + 1 for byte in text.encode()]


class Examples:
    """An endless stream of training batches from the training side of the split."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.pairs, self.words = demo_rows.sums(held_out=False), demo_rows.words(held_out=False)

    def documents(self) -> Iterator[tuple[str, str]]:
        if self.rng.random() < 0.5:
            legend, index = demo_rows.random_lookup(self.rng, self.words)
            yield demo_rows.lookup_prompt(legend, legend[index]), demo_rows.LETTERS[index] + "\n"
        else:
            while True:
                a, b = self.rng.choice(self.pairs)
                yield demo_rows.sum_prompt(a, b), f"{a + b}\n"

    def row(self) -> tuple[list[int], list[int]]:
        """Return ids and targets of one row; only answers are learned."""
        ids: list[int] = []
        targets: list[int] = []
        for prompt, answer in self.documents():
            p, a = [0, *encode(prompt)], encode(answer)
            if len(ids) + len(p) + len(a) - 1 > LENGTH:
                break
            ids += p + a[:-1]
            targets += [IGNORE] * (len(p) - 1) + a
        pad = LENGTH - len(ids)
        return ids + [0] * pad, targets + [IGNORE] * pad

    def batch(self) -> tuple[Tensor, Tensor]:
        rows = [self.row() for _ in range(BATCH)]
        return torch.tensor([ids for ids, _ in rows]), torch.tensor([targets for _, targets in rows])


def held_out_accuracy(model: Model) -> tuple[float, float]:
    """Exact match on the rows of demo_arith and demo_choice, teacher-forced: what greedy decoding gets."""
    arith = [(str(row["question"]), f"{row['answer']}\n") for row in demo_rows.arith_rows()]
    choice = [
        (demo_rows.lookup_prompt(list(row["choices"]), str(row["question"])), f"{row['answer']}\n")  # type: ignore[call-overload]
        for row in demo_rows.choice_rows()
    ]
    return exact_match(model, arith), exact_match(model, choice)


@torch.no_grad()
def exact_match(model: Model, examples: list[tuple[str, str]]) -> float:
    right = 0
    for prompt, answer in examples:
        p, a = [0, *encode(prompt)], encode(answer)
        ids = p + a[:-1]
        padded = torch.tensor([ids + [0] * (-len(ids) % CHUNK)])
        guess = model(padded)[0, len(p) - 1 : len(ids)].argmax(-1).tolist()
        right += guess == a
    return right / len(examples)


def as_checkpoint(model: Model) -> dict[str, Tensor]:
    return {name: tensor.detach().to(torch.bfloat16).contiguous() for name, tensor in model.state_dict().items()}


def learning_rate(step: int, steps: int, peak: float = 2e-3) -> float:
    return peak * min((step + 1) / 100, max(0.02, 1 - step / steps))


def train(out: Path, steps: int, seed: int, curve: Path | None) -> None:
    torch.manual_seed(seed)
    model, examples = Model(), Examples(seed)
    decayed = [p for p in model.parameters() if p.squeeze().ndim == 2]
    plain = [p for p in model.parameters() if p.squeeze().ndim != 2]
    groups = [{"params": decayed, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.99))
    started, points = time.monotonic(), []
    for step in range(steps):
        ids, targets = examples.batch()
        loss = F.cross_entropy(model(ids).view(-1, VOCAB), targets.view(-1), ignore_index=IGNORE)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, steps)
        optimiser.step()
        if step % 100 == 99 or step == steps - 1:
            arith, choice = held_out_accuracy(model)
            points.append(
                (step + 1, round(time.monotonic() - started), round(loss.item(), 4), round(arith, 4), round(choice, 4))
            )
            sys.stdout.write("step {} {} s loss {} arith {} choice {}\n".format(*points[-1]))
            sys.stdout.flush()
    model.load_state_dict({name: t.float() for name, t in as_checkpoint(model).items()})
    sys.stdout.write("as stored in bf16: arith {:.4f} choice {:.4f}\n".format(*held_out_accuracy(model)))
    torch.save(as_checkpoint(model), out)
    if curve:
        with curve.open("w", newline="") as file:
            csv.writer(file).writerows([("step", "seconds", "loss", "demo_arith", "demo_choice"), *points])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=1100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--curve", type=Path)
    arguments = parser.parse_args()
    train(arguments.out, arguments.steps, arguments.seed, arguments.curve)


if __name__ == "__main__":
    main()
