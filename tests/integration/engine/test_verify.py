"""`engine verify`: it passes what keeps its promises, and sees what does not."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rwkv_engine.verify import command
from rwkv_engine.verify.command import Finding, Subject
from rwkv_kernels import arithmetic
from rwkv_weights import synthetic
from rwkv_weights.files import builtin_checkpoint_path
from rwkvctl.protocol.numerics import PROFILES, Numerics

CPU = torch.device("cpu")


def verify(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "rwkv_engine", "verify", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def failures(findings: list[Finding]) -> list[str]:
    return [finding.name for finding in findings if finding.good is False]


def test_it_says_what_it_checked_and_gives_a_verdict() -> None:
    done = verify("builtin", "--largest", "3", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("rwkv7-builtin")
    assert "fp32 on cpu" in lines[0]
    assert lines[-1] == "verified"
    assert any(line.startswith("ok   reference against rwkv: KL") for line in lines)
    assert sum("the same bits as alone" in line for line in lines) == 5


def test_a_profile_that_promises_nothing_fails_nothing() -> None:
    done = verify("builtin", "--largest", "3", "--device", "cpu", "--numerics", "fast")
    assert done.returncode == 0
    assert "probes differ" in done.stdout
    assert done.stdout.splitlines()[-1] == "verified (fast promises no equal bits)"


def test_arithmetic_that_breaks_its_promise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "of", lambda _: arithmetic.FAST)
    found = list(command.verify(Subject.of(builtin_checkpoint_path(), "exact", CPU), 3))
    assert failures(found) == [f.name for f in found if "probes differ" in f.detail]
    assert len(failures(found)) >= 2


def test_arithmetic_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Subject.of(builtin_checkpoint_path(), "fp32", CPU)
    right = command.sequence_logits
    monkeypatch.setattr(command, "sequence_logits", lambda *given: right(*given) * 1.01)
    assert "fp32 against fp32" in failures(list(command._oracle(subject)))


@pytest.mark.parametrize("numerics", [name for name, profile in PROFILES.items() if profile.half_state])
def test_a_state_in_fp16_is_judged_by_its_loss_as_the_text_grows(numerics: Numerics) -> None:
    found = command._state(Subject.of(builtin_checkpoint_path(), numerics, CPU))
    assert found.good
    assert found.detail.count("e-") + found.detail.count("e+") >= 4


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("nowhere.pth",), 3, "nowhere.pth"),
        (("builtin", "--device", "cuda:7"), 1, "there is no cuda:7"),
        (("builtin", "--device", "abacus"), 1, "'abacus' is no device"),
        (("builtin", "--numerics", "fp4"), 2, "invalid choice: 'fp4'"),
    ],
)
def test_what_cannot_be_verified_is_said_in_one_sentence(words: tuple[str, ...], code: int, sentence: str) -> None:
    done = verify(*words)
    assert done.returncode == code
    assert sentence in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_checkpoint_with_nan_is_refused_by_the_tensors_name(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "x.pth", synthetic.dims_of(2, 64, vocabulary=257))
    tensors = torch.load(path)
    tensors["blocks.1.ffn.key.weight"][3, 5] = torch.nan
    torch.save(tensors, path)
    done = verify(str(path), "--device", "cpu")
    assert done.returncode == 3
    assert "blocks.1.ffn.key.weight" in done.stderr
