"""A fake NVML library and what it answers."""

from pathlib import Path
from typing import Any


class FakeNvml:
    """What the fake NVML library answers (`daemon/fake_nvml.c` has every word of it). Each method takes effect at once,
    as one change of the file. Memory that processes hold counts as used."""

    def __init__(self, library: Path, state: Path) -> None:
        self.environment = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(state)}
        self.state = state
        self.cards: dict[int, dict[str, Any]] = {}
        self.processes: dict[tuple[int, int], dict[str, Any]] = {}
        self.events: list[str] = []
        self.others: list[str] = []
        self.write()

    def gpus(self, count: int) -> "FakeNvml":
        """So many idle GPUs, and nothing else."""
        self.cards, self.processes, self.others = {index: {} for index in range(count)}, {}, []
        return self.write()

    def gpu(self, index: int, **values: Any) -> "FakeNvml":
        """Set values of one GPU: util=97, temp=80, lost=1, uuid=..."""
        self.cards.setdefault(index, {}).update(values)
        return self.write()

    def remove(self, index: int) -> "FakeNvml":
        """The GPU is not counted any more."""
        del self.cards[index]
        return self.write()

    def process(self, index: int, pid: int, mem: int = 2**30, **values: Any) -> "FakeNvml":
        """A process that holds memory of a GPU."""
        self.processes[index, pid] = {"pid": pid, "mem": mem} | values
        return self.write()

    def end(self, pid: int) -> "FakeNvml":
        """A process gives up what it holds."""
        self.processes = {key: values for key, values in self.processes.items() if values["pid"] != pid}
        return self.write()

    def xid(self, index: int, code: int) -> "FakeNvml":
        """An XID event."""
        self.events.append(f"event {index} type=8 data={code}")
        return self.write()

    def rule(self, *lines: str) -> "FakeNvml":
        """`fail FUNCTION CODE [GPU]`, `delay ...`, `hang FUNCTION [GPU]`, `mig ...`, in place of those before."""
        self.others = list(lines)
        return self.write()

    def uuid(self, index: int) -> str:
        """The UUID of a GPU that was given none."""
        return str(self.cards[index].get("uuid", f"GPU-fa4e{index:04d}-0000-4000-8000-{index:012d}"))

    def write(self) -> "FakeNvml":
        """Put the scenario in force."""
        held = {index: sum(v["mem"] for (i, _), v in self.processes.items() if i == index) for index in self.cards}
        cards = [
            " ".join([f"gpu {index}", *(f"{k}={v}" for k, v in ({"used": held[index]} | values).items())])
            for index, values in self.cards.items()
        ]
        processes = [
            " ".join([f"proc {index}", *(f"{k}={v}" for k, v in values.items())])
            for (index, _), values in self.processes.items()
        ]
        temporary = self.state.with_suffix(".new")
        temporary.write_text("".join(f"{line}\n" for line in [*cards, *processes, *self.events, *self.others]))
        temporary.replace(self.state)
        return self
