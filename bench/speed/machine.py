"""The machine of the figures: its hardware and software, and the roofline measured in the same run."""

import datetime as dt
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "kernels" / "bench"))

import harness
from speed.clock import device_s, spread
from speed.roofline import Roof

ROOT = Path(__file__).resolve().parents[2]
H200 = Roof("H200", *harness.H200)


def machine(device: torch.device) -> dict[str, str]:
    """Return the names and versions of hardware and software."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu (Triton's interpreter)",
        "driver": driver() if device.type == "cuda" else "none",
        "cpu": f"{cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "system": f"Linux {platform.release()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {version(name)}" for name in ("torch", "triton", "numpy", "rwkvctl")),
        "cuda": str(torch.version.cuda or torch.version.hip),
    }


def version(package: str) -> str:
    """Return the version of an installed distribution; a checkout on the path has none."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "from a checkout" if package == "rwkvctl" else "not installed"


def commit() -> str:
    """Return the commit of this checkout; for a copy without its repository, the environment variable COMMIT."""
    told = os.environ.get("COMMIT", "")
    asked = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return told or asked.stdout.strip() or "unknown: no repository here, and COMMIT is not set"


def driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown: no nvidia-smi"
    return asked.stdout.strip().replace("\n", ", ") or "unknown"


def roof(device: torch.device) -> Roof:
    """Copy bandwidth and the rate of an fp16 product, measured now."""
    if device.type == "cuda":
        return Roof("measured", *harness.roof())
    x, source = torch.randn(256, 256), torch.randn(1 << 20)
    target = torch.empty_like(source)
    copied = spread([device_s(device, lambda: target.copy_(source), 3) for _ in range(10)])
    multiplied = spread([device_s(device, lambda: x @ x, 3) for _ in range(10)])
    return Roof("measured", 2 * source.nbytes / copied.median, 2 * 256**3 / multiplied.median)


def memory_peak(device: torch.device) -> int:
    """Return the most bytes that tensors took at once since the last call."""
    if device.type != "cuda":
        return 0
    peak = torch.cuda.max_memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    return peak
