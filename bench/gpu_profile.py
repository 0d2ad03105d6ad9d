"""Which kernels the time of a step goes to, on a GPU: `python bench/gpu_profile.py [--size 1.5B] [--numerics fast]`.

For each batch size of decode, the model's captured step with a greedy sampler; for each prefill shape, the step
launched kernel by kernel. A table for each: microseconds a step by kernel, its launches, its share, and the time in
which no kernel ran (with dependent launch kernels overlap, and their sum exceeds the step). Random weights, as in
bench/engine.py.
"""

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterator

import torch
from speed import machine, roofline
from speed.clock import device_s
from speed.profile_rig import HALVES, MeasuredModel, forget, rigs
from speed.steady import prompt
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from rwkv_engine.gpu.sequence_rows import of_sequences
from rwkv_weights.formats import synthetic
from rwkvctl.protocol.numerics import Numerics

STEPS = 5
SHOWN = 16


def kernel_times(step: Callable[[], None]) -> tuple[Counter[str], Counter[str]]:
    """Return the microseconds and the launches of each kernel, for one step."""
    step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    spent: Counter[str] = Counter()
    launches: Counter[str] = Counter()
    for event in found.events() or ():
        if event.device_type == DeviceType.CUDA:
            name = event.name.split("<")[0].split("(")[0][-44:]
            spent[name] += event.device_time / STEPS
            launches[name] += 1
    return spent, launches


def table(title: str, device: torch.device, step: Callable[[], None]) -> Iterator[str]:
    step()
    whole = 1e6 * device_s(device, step, STEPS)
    spent, launches = kernel_times(step)
    yield f"\n{title}: {whole:.0f} us a step, {sum(launches.values()) // STEPS} launches"
    for name, micros in spent.most_common(SHOWN):
        yield f"  {micros:10.1f} us {micros / whole:6.1%} {launches[name] // STEPS:5} x  {name}"
    yield f"  {whole - sum(spent.values()):10.1f} us {1 - sum(spent.values()) / whole:6.1%}          between kernels"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="1.5B", choices=roofline.SHAPES)
    parser.add_argument("--numerics", default="fast", choices=HALVES)
    parser.add_argument("--batches", default="1,32,128,1024")
    parser.add_argument("--prompts", default="1x1024,8x1024,32x1024,64x64")
    flags = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU here: nothing is measured")
        return 0
    device, numerics = torch.device("cuda", 0), flags.numerics
    print(machine.machine(device))
    dims = roofline.dims_of(flags.size)
    subject = MeasuredModel.of(synthetic.drawn_on(device, dims), [numerics], device)
    decoding(subject, numerics, [int(batch) for batch in flags.batches.split(",")])
    for shape in flags.prompts.split(","):
        forget()
        prefilling(subject, numerics, *(int(number) for number in shape.split("x")))
    return 0


@torch.inference_mode()
def decoding(subject: MeasuredModel, numerics: Numerics, batches: list[int]) -> None:
    rig = rigs(subject, batches, 16)[numerics]
    decode = rig.runner.decode
    decode.slots.copy_(torch.arange(decode.largest))
    for batch in batches:
        print("\n".join(table(f"decode {batch}", subject.device, lambda batch=batch: decode.graphs.run(batch))))  # type: ignore[misc]


@torch.inference_mode()
def prefilling(subject: MeasuredModel, numerics: Numerics, sequences: int, tokens: int) -> None:
    runner = rigs(subject, [sequences], sequences * tokens)[numerics].runner
    draw = random.Random(tokens)
    prompts = [prompt(draw, subject.compiler.tokenizer.size, tokens) for _ in range(sequences)]
    in_chunks = runner.model.in_chunks([tokens] * sequences)
    rows, ids = of_sequences(list(enumerate(prompts)), subject.device, in_chunks=in_chunks)

    def step() -> None:
        runner.model.step(runner.pool, runner.prefill.space, rows, ids)
        runner.model.logits(runner.pool.hidden[:sequences], runner.decode.logits[:sequences])

    print("\n".join(table(f"prefill {sequences}x{tokens}", subject.device, step)))


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    raise SystemExit(main())
