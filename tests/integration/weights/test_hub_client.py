"""What the hub's client can, and what it cannot, beneath `weights download`: its xet storage, and why the unfinished
file is ours."""

import hashlib
import signal
import socket
import subprocess
import sys

import pytest
from waiting import LIMIT_S, wait_for

from rwkv_weights.hub import xet

REPO = "BlinkDL/rwkv7-g1"
NAME = "rwkv7-g1d-0.1b-20260129-ctx8192.pth"
BODY = hashlib.shake_128(b"x").digest(5_000_000)


def part_of(home):
    return home / "weights" / f"{NAME}.{hashlib.sha256(BODY).hexdigest()[:12]}.part"


@pytest.fixture
def stored(hub, tmp_path, monkeypatch):
    """A hub whose checkpoint lies in a xet storage: in a folder of this machine, as far as it may."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(xet, "SCHEMES", {"local"})
    hub.put_xet(REPO, NAME, BODY, tmp_path / "storage")
    return hub


@pytest.fixture
def silent():
    """A socket on which nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        yield server


# -- why `hf_hub_download` does not fetch the file


FETCH = """
import sys, huggingface_hub
huggingface_hub.hf_hub_download(sys.argv[1], sys.argv[2], revision=sys.argv[3], local_dir=sys.argv[4])
"""


def test_its_own_download_does_not_resume(hub, environment, tmp_path) -> None:
    """If this fails, `rwkv_weights.hub.part` may be no longer needed."""
    pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: not installed")
    hub.put(REPO, NAME, bytes(24 << 20))
    command = [sys.executable, "-c", FETCH, REPO, NAME, hub.commit(REPO), str(tmp_path / "to")]
    hub.holds[NAME] = 22 << 20
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

    def left() -> dict[str, int]:
        return {path.name: path.stat().st_size for path in tmp_path.rglob("*.incomplete")}

    wait_for(lambda: max(left().values(), default=0) >= 10 << 20, "some of it lies there")
    process.kill()
    process.wait()
    before = left()
    hub.holds.clear()
    subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)
    assert hub.bodies(NAME) == ["", ""], "it begins with the first byte"
    assert left() == before, "it never takes away what the killed one left"


# -- xet


def test_xet_fetches_and_http_does_not(stored, weights, home) -> None:
    run = weights("download", "--match", "*")
    assert run.returncode == 0, run.stderr
    assert (home / "weights" / NAME).read_bytes() == BODY
    assert not stored.bodies(NAME)
    api, commit = f"GET /api/models/{REPO}", stored.commit(REPO)
    asked = {line for line, _ in stored.seen}
    assert asked == {api, f"{api}/tree/{commit}", f"{api}/xet-read-token/{commit}"}
    assert {token for _, token in stored.tokens} == {"Bearer hf_test"}
    assert "4.8 MiB in " in run.stderr
    assert "sha256 as announced" in run.stderr


def test_xet_goes_on_where_it_stood(stored, weights, home) -> None:
    part_of(home).write_bytes(BODY[:3_000_000])
    run = weights("download", "--match", "*")
    assert run.returncode == 0, run.stderr
    assert "resumed at 2.9 MiB" in run.stderr
    assert (home / "weights" / NAME).read_bytes() == BODY
    assert not stored.bodies(NAME)


def test_xet_can_be_switched_off(stored, weights, weights_process, home, monkeypatch) -> None:
    run = weights_process("download", "--match", "*", HF_HUB_DISABLE_XET="1")
    assert run.returncode == 0, run.stderr
    assert (home / "weights" / NAME).read_bytes() == BODY
    assert stored.bodies(NAME) == [""]
    assert not [line for line, _ in stored.seen if "xet" in line]


def test_wrong_bytes_of_xet_are_fetched_again_without_it(stored, weights, home, tmp_path) -> None:
    stored.put_xet(REPO, NAME, BODY[::-1], tmp_path / "storage")
    stored.put(REPO, NAME, BODY)
    run = weights("download", "--match", "*")
    assert run.returncode == 0, run.stderr
    assert (home / "weights" / NAME).read_bytes() == BODY
    assert stored.bodies(NAME) == [""]


def test_http_fetches_what_xet_does_not(stored, weights, home, monkeypatch) -> None:
    monkeypatch.setattr(xet, "SCHEMES", {"http"})
    monkeypatch.setitem(xet.SETTINGS, "HF_XET_CLIENT_RETRY_MAX_ATTEMPTS", "1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        stored.storage = f"http://127.0.0.1:{server.getsockname()[1]}"
    run = weights("download", "--match", "*")
    assert run.returncode == 0, run.stderr
    assert (home / "weights" / NAME).read_bytes() == BODY
    assert stored.bodies(NAME) == [""]
    assert "xet storage failed (" in run.stderr
    assert "HTTP was used; HF_HUB_DISABLE_XET=1 does without it" in run.stderr


@pytest.mark.parametrize("lie", ["local://{}", "file://{}", "{}", "", "http://[", "unix:{}"])
def test_a_storage_that_is_none_is_not_asked(stored, weights, tmp_path, monkeypatch, lie) -> None:
    monkeypatch.setattr(xet, "SCHEMES", {"https", "http"})
    stored.storage = lie.format(tmp_path / "made")
    run = weights("download", "--match", "*")
    assert run.returncode == 0, run.stderr
    assert "xet storage failed (ValueError: " in run.stderr
    assert stored.bodies(NAME) == [""]
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("answer", [[], {}, {"casUrl": "https://x", "accessToken": "t", "exp": "soon"}, None])
def test_a_token_that_is_none_is_not_used(stored, weights, monkeypatch, answer) -> None:
    usual = stored.RequestHandlerClass._json
    monkeypatch.setattr(
        stored.RequestHandlerClass, "_json", lambda self, value: usual(self, answer if "casUrl" in value else value)
    )
    run = weights("download", "--match", "*")
    assert run.returncode == 0, run.stderr
    assert stored.bodies(NAME) == [""]


def test_a_download_that_waits_for_xet_ends_at_once_and_goes_on(stored, start, weights, home, silent) -> None:
    stored.storage = f"http://127.0.0.1:{silent.getsockname()[1]}"
    part_of(home).write_bytes(BODY[:3_000_000])
    process = start("download", "--match", "*")
    with silent.accept()[0]:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "interrupted with 0 of 1 file whole; the same command goes on" in err
    assert part_of(home).read_bytes() == BODY[:3_000_000]
    stored.storage = ""
    assert weights("download", "--match", "*").returncode == 0
    assert stored.bodies(NAME) == ["bytes=3000000-"]
    assert (home / "weights" / NAME).read_bytes() == BODY
