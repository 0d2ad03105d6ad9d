"""The numerics profiles: how a model is computed. The name is part of a job's key, so it must say all of it."""

from typing import Final, Literal, NamedTuple, get_args

Numerics = Literal["fp32", "fast", "exact", "fast-fp16-state", "exact-fp16-state"]


class Profile(NamedTuple):
    """`exact`: a row's bits depend on its own sequence alone. The WKV arithmetic is fp32; for prompts in `fast` on a
    GPU it is products of factors of 11 bits that are summed in fp32.

    `half_weights`: weights and activations in fp16 on a GPU (a CPU computes in fp32 always); `half_state`: the WKV
    state is rounded to fp16 after every token.
    """

    exact: bool
    half_weights: bool
    half_state: bool


PROFILES: Final[dict[Numerics, Profile]] = {
    "fp32": Profile(exact=True, half_weights=False, half_state=False),
    "fast": Profile(exact=False, half_weights=True, half_state=False),
    "exact": Profile(exact=True, half_weights=True, half_state=False),
    "fast-fp16-state": Profile(exact=False, half_weights=True, half_state=True),
    "exact-fp16-state": Profile(exact=True, half_weights=True, half_state=True),
}
NUMERICS: Final[tuple[Numerics, ...]] = get_args(Numerics)


def in_force(profile: str, *, gpus: bool) -> str:
    """What a wanted profile means: `auto` is `fast` where engines run on GPUs, `fp32` where the CPU is all there is."""
    if profile != "auto":
        return profile
    return "fast" if gpus else "fp32"
