"""What the figures are held against: published speeds of Albatross, and the project's own targets."""

from dataclasses import dataclass

# tok/s at 1.5B in fp16: rwkv-sglang bench/results/albatross_fleet_10cards.json (343147a), Albatross faster3a_2605.
ALBATROSS_SIZE = "1.5B"
ALBATROSS = {
    "H100": {"decode": {1: 607.3, 8: 2774.0, 32: 10027.0}, "prefill": {1: 36251.0, 8: 120893.0, 32: 154527.0}},
    "H200": {"decode": {1: 684.3, 8: 2549.0, 32: 10767.0}, "prefill": {1: 37204.0, 8: 125414.0, 32: 159351.0}},
}
PROMPT_TOKENS = 1024  # of each published prompt
ALBATROSS_RATIO = {"decode": {1: 1.25, 8: 2.0, 32: 2.0}, "prefill": {1: 2.5, 32: 1.3}}
SERVED_SIZE, SERVED = "1.5B", 32289.0  # rwkv-sglang on an H200, its best batch, prompts of 64 and answers of 256 tokens
ROOF_SHARE = {"1.5B": ((1, 1, 0.60), (256, 1 << 30, 0.65)), "7.2B": ((256, 1 << 30, 0.75),)}  # from, to, share
ENGINE_SHARE, ENGINE_FROM = 0.95, 128
EXACT_COST = {"decode": 0.10, "prefill": 0.15}


@dataclass(frozen=True, slots=True)
class Target:
    """One promise, the figure it is about, and whether that figure is a GPU's."""

    text: str
    value: float
    bound: float
    most: bool = False

    def as_json(self, *, measured: bool) -> dict[str, object]:
        met = self.value <= self.bound if self.most else self.value >= self.bound
        state = ("met" if met else "missed") if measured else "open"
        return {"target": self.text, "value": self.value, "bound": self.bound, "state": state}


def card(device: str) -> str:
    """Return the name of the published row that a device is compared with; empty if there is none."""
    return next((name for name in ALBATROSS if name in device), "")


def of_speed(size: str, kind: str, batch: int, tok_s: float, roof_share: float, device: str) -> list[Target]:
    """Return the targets for the model speed (M) of a profile."""
    found = []
    if kind == "decode":
        for low, high, share in ROOF_SHARE.get(size, ()):
            if low <= batch <= high:
                found.append(Target(f"at least {share:.0%} of the roofline", roof_share, share))
    peer = albatross(size, kind, batch, device)
    wanted = ALBATROSS_RATIO[kind].get(batch)
    if peer and wanted:
        text = f"at least {wanted:g}x of Albatross' {peer:,.0f} tok/s on an {card(device)}"
        found.append(Target(text, tok_s / peer, wanted))
    return found


def albatross(size: str, kind: str, batch: int, device: str) -> float | None:
    """The published speed at that shape on that card; None if there is none."""
    name = card(device)
    return ALBATROSS[name][kind].get(batch) if name and size == ALBATROSS_SIZE else None


def of_engine(batch: int, share: float) -> list[Target]:
    """The whole engine's speed over the model's."""
    if batch < ENGINE_FROM:
        return []
    return [Target(f"the engine at least {ENGINE_SHARE:.0%} of the model", share, ENGINE_SHARE)]


def of_exact(kind: str, cost: float) -> Target:
    """Return the target for the time that the exact profile adds to that of the fast one."""
    return Target(f"exact costs at most {EXACT_COST[kind]:.0%} of {kind}", cost, EXACT_COST[kind], most=True)
