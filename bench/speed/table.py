"""Records as lines of text; as a script, those of a file that bench/engine.py wrote."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def lines(record: Mapping[str, Any]) -> Iterator[str]:
    """A record, and below it its targets."""
    yield _TOLD["failed" if "failed" in record else record["kind"]](record)
    for target in record.get("targets", ()):
        yield f"    {target['state']:6} {target['target']}: {target['value']:.3f}"


def _failed(record: Mapping[str, Any]) -> str:
    of = [str(record[key]) for key in ("numerics", "batch", "tokens", "peer") if key in record]
    return f"{record['kind']} {' '.join(of)}: {record['failed']}"


def _gate(record: Mapping[str, Any]) -> str:
    verdict = "ok" if record["good"] else "FAIL: nothing of this size is measured"
    ids = f"{record['same']} of {record['drawn']} greedy ids the same, {record['near']} next to the best"
    of = f"{record['size']}, {record['layers']} layers, {record['numerics']}"
    return f"gate {of}: KL {record['kl']:.1e} nats a token, relative {record['relative']:.1e}; {ids}: {verdict}"


def _decode(record: Mapping[str, Any]) -> str:
    return (f"decode {record['numerics']:16} B{record['batch']:<5}{_speeds(record)}  E/M {record['engine_share']:.3f}"
            f"{_shares(record)}{_albatross(record)}")  # fmt: skip


def _prefill(record: Mapping[str, Any]) -> str:
    shape = f"{record['batch']}x{record['tokens']}"
    host = ", ".join(f"{of} {1000 * spent['median']:.2f}" for of, spent in record["host_s"].items())
    return (f"prefill {record['numerics']:15} {shape:<8}{_speeds(record)}  ms of the host: {host}{_shares(record)}"
            f"{_albatross(record)}")  # fmt: skip


def _serving(record: Mapping[str, Any]) -> str:
    told = (f"serving {record['numerics']:15} B{record['batch']:<5}{_speeds(record)}  {record['requests']} requests, "
            f"prompts of {record['prompt']}, answers of {record['tokens']} in the mean; all of it "
            f"{record['whole_tok_s']:,.0f} tok/s, {record['bytes']:,} bytes of results")  # fmt: skip
    if record["published"]:
        told += f"; {record['published']['ratio']:.2f}x of rwkv-sglang's {record['published']['rwkv-sglang']:,.0f}"
    return told


def _cost(record: Mapping[str, Any]) -> str:
    return f"{record['kind']} of {record['profile']} at {record['batch']}x{record['tokens']}"


def _peer(record: Mapping[str, Any]) -> str:
    ratios = ", ".join(f"{what} {ratio:.2f}x" for what, ratio in record["ratio"].items())
    return (
        f"peer {record['peer']}, one sequence, prompt of {record['tokens']}:{_speeds(record)}  ours over it: {ratios}"
    )


def _memory(record: Mapping[str, Any]) -> str:
    return f"peak memory of {record['part']}: {record['peak_bytes'] / 2**30:.2f} GiB of tensors"


def _speeds(record: Mapping[str, Any]) -> str:
    return "".join(
        f"  {of} {speed['median']:,.0f} ({speed['low']:,.0f}-{speed['high']:,.0f})"
        for of, speed in record["tok_s"].items()
    )


def _shares(record: Mapping[str, Any]) -> str:
    own, h200 = record["of_roof"].values()
    return f"  of roof {own:.1%} ({h200:.1%})"


def _albatross(record: Mapping[str, Any]) -> str:
    return f"  {record['albatross']['ratio']:.2f}x Albatross" if record["albatross"] else ""


_TOLD = {
    "failed": _failed,
    "gate": _gate,
    "decode": _decode,
    "prefill": _prefill,
    "serving": _serving,
    "decode exact cost": _cost,
    "prefill exact cost": _cost,
    "peer": _peer,
    "memory": _memory,
}


def main(file: Path) -> None:
    """Print the records of a run, and how many targets are met, missed and open."""
    report = json.loads(file.read_text())
    states: Counter[str] = Counter()
    for record in report["records"]:
        print("\n".join(lines(record)))
        states.update(target["state"] for target in record.get("targets", ()))
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    print(f"{file.name}: targets: {counts or 'none'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
