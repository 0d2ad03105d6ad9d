"""`list`, `show` and `verify` as an operator runs them, on files of every kind."""

import hashlib
import json
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file
from waiting import LIMIT_S

from rwkv_weights.formats.synthetic import dims_of, synthetic
from rwkv_weights.local.checkpoint_files import FileIdentity
from rwkv_weights.local.sha256_cache import NAME as NAME_OF_SUMS

DIMS = dims_of(2, 128, 257, (16, 8, 24, 40))
NAME = "rwkv7-g1d-0.1b-20260129-ctx8192"


@pytest.fixture
def model(home):
    """A checkpoint in the weights folder."""
    path = home / "weights" / f"{NAME}.pth"
    torch.save(synthetic(DIMS), path)
    return path


def checks(run) -> dict[str, tuple[bool, str]]:
    return {check["name"]: (check["ok"], check["what"]) for check in json.loads(run.stdout)["checks"]}


def test_the_list_knows_sums_after_a_verify(model, weights) -> None:
    lines = weights("list").stdout.splitlines()
    assert lines[0] == "model\tarch\tdata\tparams b\tcontext\tdate\tsize\tsha-256\tpath"
    assert lines[1].split("\t")[:6] == [NAME, "rwkv7", "g1d", "0.1", "8192", "20260129"]
    assert lines[1].split("\t")[7:] == ["not hashed", str(model)]
    assert weights("verify", NAME).returncode == 0
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    assert f"\t{digest[:12]}\t" in weights("list").stdout
    document = json.loads(weights("list", "--output", "json").stdout)
    assert document["schema"] == "rwkvctl.weights/1"
    assert document["items"][0]["sha256"] == digest


def test_the_list_works_without_torch(model, weights_process, tmp_path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('torch is not to be imported')")
    for verb in (["list"], ["show", NAME]):
        run = weights_process(*verb, PYTHONPATH=str(tmp_path))
        assert run.returncode == 0, run.stderr


def test_show_says_what_a_model_is_or_why_it_is_none(model, home, weights) -> None:
    run = weights("show", "g1d")
    assert run.returncode == 0
    assert "2 layers, width 128, 2 heads of 64, FFN 512, vocabulary 257" in run.stdout
    assert "w 16, a 8, v 24, g 40" in run.stdout
    torch.save(synthetic(DIMS) | {"blocks.0.ffn.s_emb.weight": torch.zeros(2, 2)}, home / "weights" / "rwkv7a.pth")
    run = weights("show", "rwkv7a", "--output", "json")
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1
    assert "rwkv7a.pth is not an RWKV-7 (x070) model this engine runs: it is an RWKV-7a model" in run.stderr
    assert json.loads(run.stdout)["schema"] == "rwkvctl.error/1"
    assert weights("show", "nope").returncode == 4


def test_verify_compares_with_everything_there_is(model, weights) -> None:
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    run = weights("verify", str(model), "--sha256", digest.upper(), "--output", "json")
    assert run.returncode == 0
    assert json.loads(run.stdout)["sha256"] == digest
    assert checks(run)["sha256"] == (True, f"{digest}, as in --sha256")
    model.with_name(f"{model.name}.sha256").write_text(f"{digest}  {model.name}\n")
    what = checks(weights("verify", NAME, "--output", "json"))["sha256"][1]
    assert what == f"{digest}, as in {model.name}.sha256 and in an earlier reading of the same file"
    run = weights("verify", NAME, "--sha256", "0" * 64, "--output", "json")
    assert run.returncode == 1
    assert checks(run)["sha256"] == (False, f"{digest}, but --sha256 says {'0' * 64}")
    assert weights("verify", NAME, "--sha256", "abc").returncode == 2


def test_bytes_that_rot_on_the_disk_are_found(model, home, weights) -> None:
    assert weights("verify", NAME).returncode == 0
    before = FileIdentity.of(model)
    write_one_bit(model)
    as_if_unchanged = {"changed_ns": FileIdentity.of(model).changed_ns}  # what a disk does to a file is no change of it
    known = json.loads((home / "cache" / NAME_OF_SUMS).read_text())
    [record] = [record for record in known["files"] if record["changed_ns"] == before.changed_ns]
    record |= as_if_unchanged
    (home / "cache" / NAME_OF_SUMS).write_text(json.dumps(known))
    for _ in range(2):
        run = weights("verify", NAME, "--output", "json")
        assert run.returncode == 1
        assert "but an earlier reading of the same file says" in checks(run)["sha256"][1]


def test_a_file_whose_time_is_set_back_is_another_one(model, weights) -> None:
    assert weights("verify", NAME).returncode == 0
    before = model.stat()
    write_one_bit(model)
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "not hashed" in weights("list").stdout


def write_one_bit(model) -> None:
    """Change the middle of a file, and not its size."""
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    with model.open("r+b") as file:
        file.write(content)


@pytest.mark.parametrize("ending", ["pth", "safetensors"])
def test_numbers_that_are_not_finite_are_named(home, weights, ending) -> None:
    tensors = synthetic(DIMS)
    tensors["blocks.1.att.g2"][3, 7] = float("inf")
    path = home / "weights" / f"bad.{ending}"
    torch.save(tensors, path) if ending == "pth" else save_file(tensors, path)
    run = weights("verify", "bad", "--output", "json")
    assert run.returncode == 1
    assert checks(run)["values"] == (False, "NaN or infinities in blocks.1.att.g2")
    assert checks(run)["names"][0]
    assert checks(run)["sha256"][0]


def test_a_truncated_file_is_said_and_still_hashed(model, weights) -> None:
    model.write_bytes(model.read_bytes()[:-1000])
    run = weights("verify", NAME, "--output", "json")
    assert run.returncode == 1
    assert "truncated" in checks(run)["names"][1]
    assert json.loads(run.stdout)["sha256"] == hashlib.sha256(model.read_bytes()).hexdigest()


@pytest.mark.parametrize("verb", ["show", "verify"])
def test_what_never_ends_is_not_read(weights, verb) -> None:
    run = weights(verb, "/dev/zero")
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1


def test_a_folder_without_weights_has_no_sum(home, weights) -> None:
    folder = home / "weights" / "empty"
    folder.mkdir()
    run = weights("verify", str(folder), "--output", "json")
    assert run.returncode == 1
    assert json.loads(run.stdout)["sha256"] == ""
    assert list(checks(run)) == ["names"]
    assert "neither model.safetensors nor" in checks(run)["names"][1]
    assert "BAD" in weights("verify", str(folder), "--output", "table").stdout


def test_a_cache_that_cannot_be_written_is_a_note(model, home, weights) -> None:
    (home / "cache").write_text("in the way")
    run = weights("verify", NAME)
    assert run.returncode == 0
    assert "the sha256 is not remembered" in run.stderr


def test_the_console_hands_over_what_was_asked(model, home, environment) -> None:
    def rwkvctl(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rwkvctl.cli", "weights", words[0], "--home", str(home), *words[1:]]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LIMIT_S, check=False)

    assert NAME in rwkvctl("list").stdout
    assert rwkvctl("show", NAME, "--json").stdout.startswith('{"schema": "rwkvctl.weights-show/1"')
    assert rwkvctl("verify", NAME, "--sha256", "0" * 64).returncode == 1
    assert rwkvctl("show", "--", "--odd").returncode == 4
    run = rwkvctl("download", "--repo", "a/b", "--match", "x*", "y*", "--to", "/nowhere", "--dry-run", "--workers", "2")
    assert run.returncode == 4
    assert "a/b is not on http://" in run.stderr


def test_what_a_daemon_knows_is_taken(model, weights) -> None:
    run = weights("list", "--known", json.dumps({str(model): "ef" * 32}), "--output", "json")
    assert json.loads(run.stdout)["items"][0]["sha256"] == "ef" * 32
