"""`engine verify`: it passes models that keep the promises, and detects others."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from rwkv_engine.__main__ import main
from rwkv_engine.verify import checks
from rwkv_engine.verify.checks import CheckResult, ModelUnderTest
from rwkv_kernels import arithmetic
from rwkv_weights.formats import synthetic
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.protocol.numerics import PROFILES, Numerics

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Told:
    """The output of a run."""

    code: int
    out: str
    err: str


Verify = Callable[..., Told]


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verify:
    """Run `python -m rwkv_engine verify ...` in this process, because importing torch takes long."""

    def run(*words: str) -> Told:
        try:
            code = main(["verify", *words])
        except SystemExit as wrong:
            code = int(str(wrong.code))
        return Told(code, *capsys.readouterr())

    return run


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine without the package rwkv."""
    monkeypatch.setattr(checks, "package_logits", lambda *_: None)


def failures(results: list[CheckResult]) -> list[str]:
    return [result.name for result in results if result.good is False]


@pytest.mark.slow("oracles")
def test_it_says_what_it_checked_and_gives_a_verdict() -> None:
    """In a process of its own, as an operator runs it, with the package rwkv."""
    argv = [sys.executable, "-m", "rwkv_engine", "verify", "builtin", "--largest", "3", "--device", "cpu"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("rwkv7-builtin")
    assert "fp32 on cpu" in lines[0]
    assert lines[-1] == "verified"
    assert any(line.startswith("ok   reference against rwkv: KL") for line in lines)
    assert sum("the same bits as alone" in line for line in lines) == 5


@pytest.mark.usefixtures("alone")
def test_without_the_package_the_rest_is_checked(verify: Verify) -> None:
    done = verify("builtin", "--largest", "1", "--device", "cpu")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].startswith("rwkv7-builtin")
    assert "-    reference: not compared: the package rwkv or memory for it is missing" in lines
    assert sum("the same bits as alone" in line for line in lines) == 3
    assert lines[-1] == "verified"


@pytest.mark.usefixtures("alone")
def test_the_findings_are_one_json_document(verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [CheckResult("weights", "finite", good=True), CheckResult("reference", "not here", good=None)]
    monkeypatch.setattr(checks, "verify", lambda *_: iter(found))
    done = verify("builtin", "--device", "cpu", "--json")
    document = json.loads(done.out)
    assert (done.code, document["schema"], document["ok"]) == (0, "rwkvctl.engine-verify/1", True)
    assert document["checks"][1] == {"name": "reference", "ok": None, "what": "not here"}
    found.append(CheckResult("batch 1", "1 probe differs", good=False))
    done = verify("builtin", "--device", "cpu", "--json")
    assert (done.code, json.loads(done.out)["ok"]) == (1, False)


@pytest.mark.usefixtures("alone")
def test_a_profile_that_promises_nothing_fails_nothing(verify: Verify) -> None:
    done = verify("builtin", "--largest", "1", "--device", "cpu", "--numerics", "fast")
    assert done.code == 0
    assert "probes differ" in done.out
    assert done.out.splitlines()[-1] == "verified (fast promises no equal bits)"


@pytest.mark.usefixtures("alone")
def test_arithmetic_that_breaks_its_promise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "of", lambda _: arithmetic.FAST)
    found = list(checks.verify(ModelUnderTest.of(builtin_checkpoint_path(), "exact", CPU), 1))
    assert failures(found) == [f.name for f in found if "probes differ" in f.detail]
    assert len(failures(found)) == 2


@pytest.mark.usefixtures("alone")
def test_arithmetic_that_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = ModelUnderTest.of(builtin_checkpoint_path(), "fp32", CPU)
    right = checks.sequence_logits
    monkeypatch.setattr(checks, "sequence_logits", lambda *given: right(*given) * 1.01)
    assert "fp32 against fp32" in failures(list(checks._oracle(subject)))


@pytest.mark.parametrize(
    ("numerics", "tokens"),
    [
        ("exact-fp16-state", checks.precision.BIN_TOKENS + 1),
        *(
            pytest.param(name, checks.TEXT_TOKENS, marks=pytest.mark.slow("exact"))
            for name, profile in PROFILES.items()
            if profile.half_state
        ),
    ],
)
def test_a_state_in_fp16_is_judged_by_its_loss_as_the_text_grows(
    numerics: Numerics, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "TEXT_TOKENS", tokens)
    found = checks._state(ModelUnderTest.of(builtin_checkpoint_path(), numerics, CPU))
    assert found.good
    assert found.detail.count("e-") + found.detail.count("e+") >= -(-tokens // checks.precision.BIN_TOKENS)


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("nowhere.pth",), 3, "nowhere.pth"),
        (("builtin", "--device", "cuda:7"), 1, "there is no cuda:7"),
        (("builtin", "--device", "abacus"), 1, "'abacus' is not a device"),
        (("builtin", "--numerics", "fp4"), 2, "invalid choice: 'fp4'"),
    ],
)
def test_what_cannot_be_verified_is_said_in_one_sentence(
    words: tuple[str, ...], code: int, sentence: str, verify: Verify
) -> None:
    done = verify(*words)
    assert done.code == code
    assert sentence in done.err.splitlines()[-1]


def test_a_checkpoint_with_nan_is_refused_by_the_tensors_name(tmp_path: Path, verify: Verify) -> None:
    path = synthetic.write(tmp_path / "x.pth", synthetic.dims_of(2, 64, vocabulary=257))
    tensors = torch.load(path)
    tensors["blocks.1.ffn.key.weight"][3, 5] = torch.nan
    torch.save(tensors, path)
    done = verify(str(path), "--device", "cpu")
    assert done.code == 3
    assert "blocks.1.ffn.key.weight" in done.err
