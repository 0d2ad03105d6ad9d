"""`weights inspect` and `weights merge` as an operator runs them; what a merged checkpoint computes."""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import adapters
import pytest
import torch
from adapters import ALPHA, KINDS, RANK
from waiting import LIMIT_S

from rwkv_weights.formats import load, pth_writer
from rwkv_weights.local import sha256_sidecar

NAME = "rwkv7-g1d-0.1b-20260129-ctx8192"


@pytest.fixture
def base(home: Path) -> Path:
    """A base in the weights folder."""
    return adapters.write_base(home / "weights" / f"{NAME}.pth")


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_inspect_says_in_a_line_what_an_adapter_is(base: Path, weights: Any, tmp_path: Path) -> None:
    path = str(adapters.write_adapter(tmp_path / "a", "lora"))
    run = weights("inspect", path)
    assert run.stdout == f"lora r={RANK} on 12 tensors of 2 layers, 2 full tensors; alpha is not in the file\n"
    assert weights("inspect", path, "--base", "g1d").stdout.endswith(f"it fits {NAME}\n")
    Path(f"{path}.json").write_text(json.dumps({"alpha": 8, "base_sha256": "ab" * 32}))
    told = weights("inspect", path, "--base", "g1d").stdout
    assert "alpha 8 (rwkv-12.pth.json)\n  trained on a checkpoint of sha256 abababababab…" in told
    assert f"its shapes fit {NAME}; whether that is the base it names is not known" in told
    assert weights("verify", NAME).returncode == 0
    assert "belongs to another base" in weights("inspect", path, "--base", "g1d").stderr
    Path(f"{path}.json").unlink()
    facts = json.loads(weights("inspect", path, "--base", NAME, "--output", "json").stdout)
    assert facts["schema"] == "rwkvctl.weights-adapter/1"
    assert (facts["kind"], facts["ranks"], facts["alpha"], facts["fits"]) == ("lora", [RANK], None, NAME)
    run = weights("inspect", str(base))
    assert (run.returncode, "is no adapter" in run.stderr) == (1, True)
    assert "is an adapter, not a whole model" in weights("show", path).stderr


def test_merge_writes_a_checkpoint_with_its_sha256_beside_it(base: Path, weights: Any, home: Path) -> None:
    path, to = adapters.write_adapter(home.parent / "a", "lora"), home / "weights" / "merged.pth"
    words = ("merge", str(path), "--base", NAME, "--alpha", str(ALPHA), "--to", str(to), "--output", "json")
    run = weights(*words)
    assert run.returncode == 0, run.stderr
    facts = json.loads(run.stdout)
    assert facts["sha256"] == hashlib.sha256(to.read_bytes()).hexdigest()
    assert facts["base_sha256"] == hashlib.sha256(base.read_bytes()).hexdigest()
    assert (facts["kind"], facts["alpha"], facts["changed_tensors"], facts["replaced_tensors"]) == (
        "lora",
        ALPHA,
        12,
        2,
    )
    assert weights("verify", "merged").returncode == 0
    assert left(home / "weights") == [to.name, f"{to.name}.sha256", base.name]
    umask = os.umask(0o027)
    os.umask(umask)
    modes = {one.stat().st_mode & 0o777 for one in (to, to.with_name(f"{to.name}.sha256"))}
    assert modes == {0o644 & ~umask}
    again = json.loads(weights(*words, "--replace").stdout)
    assert (again["derived"], again["sha256"]) == (facts["derived"], facts["sha256"])


def test_a_merge_that_is_refused_writes_nothing(
    base: Path, weights: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, to = str(adapters.write_adapter(home.parent / "a", "lora")), home / "weights" / "m.pth"

    def refused(*words: str, says: str, code: int = 1) -> None:
        run = weights("merge", *words)
        assert (run.returncode, says in run.stderr) == (code, True), run.stderr
        assert left(home / "weights") == [base.name]

    given = (path, "--base", NAME, "--alpha", "24", "--to")
    refused(path, "--base", NAME, "--to", str(to), says="the alpha of rwkv-12.pth is not in the file: give --alpha")
    refused(path, "--base", "nobody", "--alpha", "24", "--to", str(to), says="no checkpoint is called 'nobody'", code=4)
    refused(*given, str(base), says="is what is to be merged; name another file")
    refused(*given, str(home / "nowhere" / "m.pth"), says="there is no folder")
    refused(*given, str(to.with_suffix(".safetensors")), says="is to be a name that ends in .pth")
    refused(*given, str(home / "weights" / "\udcff.pth"), says="is to be a name that ends in .pth")
    refused(*given, str(home / "weights" / f"{'x' * 251}.pth"), says="File name too long")
    refused(*given, str(to), "--bf16-between", says="is lora; --bf16-between is for pissa")
    state = home.parent / "state.pth"
    torch.save({"blocks.0.att.time_state": torch.zeros(2, 64, 64)}, state)
    refused(str(state), "--base", NAME, "--to", str(to), says="is a tuned state, which changes no weight")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1, 1, 1000))
    refused(*given, str(to), says="has 1000 B free, and 2.0 MiB are to be written")


def test_a_file_that_is_there_is_written_over_only_with_replace(base: Path, weights: Any, home: Path) -> None:
    path, to = str(adapters.write_adapter(home.parent / "a", "bone")), home / "m.pth"
    to.write_bytes(b"mine")
    run = weights("merge", path, "--base", NAME, "--to", str(to))
    assert (run.returncode, "is there already; name another file, or add --replace" in run.stderr) == (1, True)
    assert to.read_bytes() == b"mine"
    assert weights("merge", path, "--base", NAME, "--to", str(to), "--replace").returncode == 0
    assert load.load(to).dims == adapters.DIMS


def test_a_full_disk_leaves_no_part(base: Path, home: Path, tmp_path: Path) -> None:
    path = str(adapters.write_adapter(home.parent / "a", "bone"))
    words = ["merge", path, "--base", NAME, "--to", str(tmp_path / "m.pth"), "--home", str(home)]
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))\n"
        f"from rwkv_weights.__main__ import main; sys.exit(main({words!r}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (run.returncode, f"cannot write {tmp_path / 'm.pth'}: File too large" in run.stderr) == (1, True), run.stderr
    assert not [name for name in left(tmp_path) if "m.pth" in name]


def test_the_verbs_of_the_command_line_hand_over_what_was_asked(base: Path, home: Path, tmp_path: Path) -> None:
    path, to = str(adapters.write_adapter(tmp_path / "a", "pissa")), tmp_path / "merged.pth"
    environ = {name: text for name, text in os.environ.items() if not name.startswith("RWKVCTL_")}

    def rwkvctl(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "rwkvctl.cli", "weights", *words, "--home", str(home)],
            env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip

    assert rwkvctl("inspect", path, "--base", NAME).stdout.startswith(f"pissa r={RANK} on 12 tensors of 2 layers")
    run = rwkvctl("merge", path, "--base", NAME, "--to", str(to), "--bf16-between")
    assert (run.returncode, run.stdout.splitlines()[0]) == (
        0,
        f"{to}  {NAME} with pissa r={RANK} on 12 tensors of 2 layers, 2 full tensors",
    ), run.stderr
    assert "init_pissa.pth; if it is a plain LoRA: --init none" in run.stdout
    run = rwkvctl("merge", path, "--base", NAME, "--alpha", "3", "--to", str(to), "--replace")
    assert (run.returncode, "init_pissa.pth lies beside rwkv-12.pth and would make it PiSSA" in run.stderr) == (1, True)
    run = rwkvctl("merge", path, "--base", NAME, "--alpha", "0", "--init", "none", "--to", str(to), "--replace")
    assert (run.returncode, "--alpha is 0, and is to be a number above 0" in run.stderr) == (1, True)
    run = rwkvctl("merge", path, "--base", NAME, "--alpha", "8", "--init", "none", "--to", str(to), "--replace")
    assert f"{to}  {NAME} with lora r={RANK} on 12 tensors of 2 layers, 2 full tensors, alpha 8\n" in run.stdout


@pytest.mark.parametrize("what", ["base", "adapter", "gone", "target"])
def test_what_changes_during_a_merge_ends_it_and_nothing_is_lost(
    what: str, base: Path, weights: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, to = adapters.write_adapter(home.parent / "a", "bone"), home / "m.pth"
    if what != "target":
        to.write_bytes(b"precious")
    real = pth_writer.write

    def meanwhile(*arguments: Any) -> None:
        real(*arguments)
        if what == "gone":
            adapter.unlink()
        else:
            {"base": base, "adapter": adapter, "target": to}[what].touch()
        if what == "target":
            to.with_name("m.pth.sha256").write_text("its own")

    monkeypatch.setattr(pth_writer, "write", meanwhile)
    words = ["merge", str(adapter), "--base", NAME, "--to", str(to)]
    run = weights(*words, *([] if what == "target" else ["--replace"]))
    says = "m.pth has appeared meanwhile" if what == "target" else "gone, or was changed while it was read"
    assert (run.returncode, says in run.stderr) == (1, True), run.stderr
    assert to.read_bytes() == (b"" if what == "target" else b"precious")
    assert [name for name in left(home) if "m.pth" in name] == ["m.pth", *(["m.pth.sha256"] * (what == "target"))]


@pytest.mark.parametrize("there", [False, True])
def test_a_disk_without_hard_links_takes_the_file_and_loses_none(
    there: bool, base: Path, weights: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, to = adapters.write_adapter(home.parent / "a", "bone"), home / "m.pth"

    def refusing(_source: Path, _target: Path) -> None:
        if there:
            to.write_bytes(b"precious")
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refusing)
    run = weights("merge", str(adapter), "--base", NAME, "--to", str(to))
    if there:
        assert (run.returncode, "m.pth has appeared meanwhile" in run.stderr) == (1, True), run.stderr
        assert to.read_bytes() == b"precious"
    else:
        assert (run.returncode, load.load(to).dims) == (0, adapters.DIMS), run.stderr
    assert [name for name in left(home) if name.endswith(".part")] == []


def test_a_sum_that_cannot_be_written_is_no_file_that_was_not(
    base: Path, weights: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, to = adapters.write_adapter(home.parent / "a", "bone"), home / "m.pth"

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sha256_sidecar, "write", full)
    run = weights("merge", str(adapter), "--base", NAME, "--to", str(to))
    assert run.returncode == 1
    sha256 = hashlib.sha256(to.read_bytes()).hexdigest()
    assert f"{to} is whole (sha256 {sha256}), but its .sha256 cannot be written: No space left" in run.stderr


def test_a_part_is_written_over_unless_another_merge_writes_it_or_it_is_not_ours(
    base: Path, weights: Any, home: Path
) -> None:
    adapter, to, part = adapters.write_adapter(home.parent / "a", "bone"), home / "m.pth", home / ".m.pth.part"
    words = ("merge", str(adapter), "--base", NAME, "--to", str(to))
    part.write_bytes(b"left by a killed merge" * 1_000_000)
    with part.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert "another merge writes" in weights(*words).stderr
    (home / "second").hardlink_to(part)
    assert "belongs to another user or has a second name; remove it" in weights(*words).stderr
    assert (home / "second").read_bytes().startswith(b"left by a killed merge")
    (home / "second").unlink()
    assert weights(*words).returncode == 0
    assert load.load(to).dims == adapters.DIMS
    assert not part.exists()


def test_a_link_that_leads_nowhere_is_not_replaced(base: Path, weights: Any, home: Path) -> None:
    adapter, to = str(adapters.write_adapter(home.parent / "a", "bone")), home / "m.pth"
    to.symlink_to(home / "elsewhere.pth")
    run = weights("merge", adapter, "--base", NAME, "--to", str(to))
    assert (run.returncode, "is there already" in run.stderr) == (1, True)
    assert to.is_symlink()


def test_a_hangup_leaves_no_part(base: Path, home: Path, tmp_path: Path) -> None:
    path = str(adapters.write_adapter(home.parent / "a", "bone"))
    words = ["merge", path, "--base", NAME, "--to", str(tmp_path / "m.pth"), "--home", str(home)]
    code = (
        "import os, signal, sys\nfrom rwkv_weights.formats import pth_writer\n"
        "real = pth_writer.write\n"
        "def cut(*given):\n    real(*given)\n    os.kill(os.getpid(), signal.SIGHUP)\n"
        "pth_writer.write = cut\n"
        f"from rwkv_weights.__main__ import main; sys.exit(main({words!r}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert run.returncode == 130, run.stderr
    assert not [name for name in left(tmp_path) if "m.pth" in name]


@pytest.mark.slow("oracles")
@pytest.mark.parametrize("kind", KINDS)
def test_the_package_computes_with_a_merged_file_what_it_does_with_an_independent_merge(
    kind: str, base: Path, weights: Any, home: Path, tmp_path: Path
) -> None:
    pytest.importorskip("rwkv", reason="the oracle is the PyPI package rwkv")
    path, to = adapters.write_adapter(tmp_path / "a", kind), tmp_path / "merged.pth"
    alpha = ["--alpha", str(ALPHA)] if kind == "lora" else []
    run = weights("merge", str(path), "--base", NAME, *alpha, "--to", str(to))
    assert run.returncode == 0, run.stderr
    wanted = adapters.merged_in_float64(kind, adapters.base_tensors(), *adapters.adapter_tensors(kind))
    torch.save({name: tensor.float() for name, tensor in wanted.items()}, tmp_path / "wanted.pth")
    ours, theirs, before = (logits(file) for file in (to, tmp_path / "wanted.pth", base))
    assert float((ours - theirs).abs().max() / theirs.abs().max()) <= 1e-5
    assert float((ours - before).abs().max() / before.abs().max()) > 0.1


def logits(path: Path) -> torch.Tensor:
    """The package's logits of every position of a text; it reads its switches when it is first imported."""
    os.environ.update(RWKV_V7_ON="1", RWKV_JIT_ON="0", RWKV_CUDA_ON="0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from rwkv.model import RWKV

        model = RWKV(model=str(path.with_suffix("")), strategy="cpu fp32")
    found, _ = model.forward([0, 5, 17, 200, 256, 31, 8, 99], None, full_output=True)
    return found.double()
