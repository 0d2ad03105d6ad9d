"""Fetching from a hub that is well, and from one that is not: what lies in the folder afterwards, and what is said."""

import contextlib
import errno
import hashlib
import json
import os
import signal
from types import SimpleNamespace

import pytest
from waiting import LIMIT_S, wait_for

from rwkv_weights.hub import remote

REPO = "BlinkDL/rwkv7-g1"
SMALL = "rwkv7-g1d-0.1b-20260129-ctx8192.pth"
LARGE = "rwkv7-g1h-1.5b-20260710-ctx10240.pth"


def body(size: int, seed: int = 0) -> bytes:
    return hashlib.shake_128(bytes([seed])).digest(size)


@pytest.fixture
def published(hub):
    """Two checkpoints and what else a repository holds."""
    hub.put(REPO, "README.md", b"# read me")
    hub.put(REPO, LARGE, body(700_000, 1))
    hub.put(REPO, SMALL, body(300_000))
    return hub


def lying(folder) -> dict[str, int]:
    return {str(p.relative_to(folder)): p.stat().st_size for p in sorted(folder.rglob("*")) if p.is_file()}


def part_of(home):
    """Where the small published checkpoint grows."""
    return home / "weights" / f"{SMALL}.{hashlib.sha256(body(300_000)).hexdigest()[:12]}.part"


def begun_at(asked: str) -> int:
    """The first byte of a Range."""
    return int(asked.removeprefix("bytes=").removesuffix("-"))


# -- choosing


def test_the_list_is_in_natural_order_and_fetches_nothing(published, weights, home) -> None:
    run = weights("download", "--list", "--output", "table")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["FILE", SMALL, LARGE]
    assert lines[1].split()[1:8] == ["293", "KiB", "rwkv7", "g1d", "0.1", "20260129", "8,192"]
    assert not published.bodies(SMALL)
    assert lying(home / "weights") == {}


def test_without_a_choice_it_lists_and_says_how_to_choose(published, weights, home) -> None:
    run = weights("download")
    assert run.returncode == 2
    assert "--match GLOB; all of it is 977 KiB" in run.stderr
    assert lying(home / "weights") == {}


def test_what_does_not_match_is_said(published, weights) -> None:
    run = weights("download", "--match", "*g9*")
    assert run.returncode == 4
    assert "no file of BlinkDL/rwkv7-g1 matches '*g9*'; see --list for the 2 there are" in run.stderr


def test_a_dry_run_promises(published, weights, home) -> None:
    run = weights("download", "--match", "*0.1b*", "--dry-run", "--output=json")
    assert run.returncode == 0
    assert "would fetch 1 file, 293 KiB" in run.stderr
    (item,) = json.loads(run.stdout)["items"]
    assert (item["file"], item["state"], item["left_bytes"]) == (SMALL, "missing", 300_000)
    assert lying(home / "weights") == {}


# -- fetching


def test_files_arrive_whole_and_a_second_run_fetches_nothing(published, weights, home) -> None:
    run = weights("download", "--match", "*")
    assert run.returncode == 0, run.stderr
    folder = home / "weights"
    assert (folder / SMALL).read_bytes() == body(300_000)
    assert (folder / LARGE).read_bytes() == body(700_000, 1)
    digest = hashlib.sha256(body(300_000)).hexdigest()
    assert (folder / f"{SMALL}.sha256").read_text() == f"{digest}  {SMALL}\n"
    assert set(lying(folder)) == {SMALL, LARGE, f"{SMALL}.sha256", f"{LARGE}.sha256"}
    assert f"{SMALL}: 293 KiB in under a second" in run.stderr
    assert "2 of 2 files" in run.stderr.splitlines()[-1]
    published.seen.clear()
    again = weights("download", "--match", "*")
    assert again.returncode == 0
    assert f"{SMALL}: is here already" in again.stderr
    assert not published.bodies(SMALL)
    assert not published.bodies(LARGE)
    listed = json.loads(weights("list", "--output", "json").stdout)["items"]
    assert {item["name"]: item["sha256"] for item in listed}[SMALL.removesuffix(".pth")] == digest


def test_a_file_that_lay_there_is_read_once_and_then_known(published, weights, home) -> None:
    (home / "weights" / SMALL).write_bytes(body(300_000))
    assert "yes, unread" in weights("download", "--list").stdout
    run = weights("download", "--match", "*0.1b*")
    assert run.returncode == 0
    assert not published.bodies(SMALL)
    assert "yes, unread" not in weights("download", "--list").stdout


def test_another_file_of_that_name_stays(published, weights, home) -> None:
    mine = home / "weights" / SMALL
    mine.write_bytes(body(300_000, 9))
    run = weights("download", "--match", "*")
    assert run.returncode == 8
    assert f"{SMALL}: {mine} is another file than the hub's, and stays" in run.stderr
    assert mine.read_bytes() == body(300_000, 9)
    assert (home / "weights" / LARGE).exists()


def test_a_folder_of_ones_own_and_several_repositories(published, weights, tmp_path) -> None:
    published.put("fla-hub/rwkv7-0.1B-g1", "model.safetensors", body(5000, 2))
    published.put("fla-hub/rwkv7-0.1B-g1", "config.json", b'{"model_type": "rwkv7"}')
    published.put("fla-hub/rwkv7-0.1B-g1", "generation_config.json", b"{}")
    to = tmp_path / "elsewhere"
    run = weights(
        "download", "--repo", REPO, "fla-hub/rwkv7-0.1B-g1", "--match", "*", "--to", str(to), "--workers", "1"
    )
    assert run.returncode == 0, run.stderr
    here = lying(to)
    assert here["rwkv7-0.1B-g1/model.safetensors"] == 5000
    assert "rwkv7-0.1B-g1/config.json" in here
    assert "rwkv7-0.1B-g1/generation_config.json" not in here
    assert SMALL in here
    assert weights("download", "--repo", "fla-hub/rwkv7-0.1B-g1", "--to", str(to)).returncode == 0


def test_the_token_is_sent_and_the_commit_is_pinned(published, weights_process) -> None:
    assert weights_process("download", "--match", "*0.1b*").returncode == 0
    assert [line for line, _ in published.seen if REPO not in line] == []
    assert [asked for asked in published.tokens if asked[1] != "Bearer hf_test"] == []
    fetched = [line for line, _ in published.seen if "/resolve/" in line]
    assert fetched == [f"GET /{REPO}/resolve/{published.commit(REPO)}/{SMALL}"]


# -- a hub that is not well


def test_a_broken_connection_goes_on_where_it_stood(hub, weights, home) -> None:
    content = body(5_000_000)
    hub.put(REPO, SMALL, content)
    hub.cuts[SMALL] = [2_500_000, 1_500_000]
    run = weights("download", "--match", "*")
    assert run.returncode == 0, run.stderr
    assert (home / "weights" / SMALL).read_bytes() == content
    first, second, third = hub.bodies(SMALL)
    assert first == ""
    assert 0 < begun_at(second) <= 2_500_000
    assert begun_at(second) < begun_at(third) <= begun_at(second) + 1_500_000
    assert run.waits == [1.0, 1.0]


def test_a_hub_that_ignores_ranges_sends_it_all_again(hub, weights, home) -> None:
    hub.put(REPO, SMALL, body(3_000_000))
    hub.cuts[SMALL], hub.ranges = [2_500_000], False
    run = weights("download", "--match", "*")
    assert run.returncode == 0, run.stderr
    assert (home / "weights" / SMALL).read_bytes() == body(3_000_000)


def test_wrong_bytes_once_are_fetched_again(published, weights, home) -> None:
    published.spoiled[SMALL] = 1
    run = weights("download", "--match", "*0.1b*")
    assert run.returncode == 0, run.stderr
    assert (home / "weights" / SMALL).read_bytes() == body(300_000)
    assert published.bodies(SMALL) == ["", ""]


def test_wrong_bytes_twice_are_thrown_away(published, weights, home) -> None:
    published.spoiled[SMALL] = 2
    run = weights("download", "--match", "*0.1b*")
    assert run.returncode == 1
    assert "the bytes are not those that the hub announced (sha256 " in run.stderr
    assert lying(home / "weights") == {}


def test_more_bytes_than_announced_are_refused(published, weights, home) -> None:
    published.more[SMALL] = b"x" * (3 << 20)
    run = weights("download", "--match", "*0.1b*")
    assert run.returncode == 1
    assert "the hub sends more than the 300,000 bytes that it announced, fetched twice; they are thrown" in run.stderr
    assert lying(home / "weights") == {}


def test_a_part_of_which_the_hub_does_not_know_the_rest_is_begun_again(published, weights, home) -> None:
    part_of(home).write_bytes(body(300_000)[:1000])
    published.refusals = [(r"/resolve/", 416, {}, 1)]
    run = weights("download", "--match", "*0.1b*")
    assert run.returncode == 0, run.stderr
    assert published.bodies(SMALL) == ["bytes=1000-", ""]
    assert (home / "weights" / SMALL).read_bytes() == body(300_000)


def test_no_wait_is_longer_than_five_minutes_whatever_the_hub_says(published, weights, monkeypatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("huggingface_hub.utils._http.time", SimpleNamespace(sleep=slept.append))
    published.refusals = [(r"/resolve/", 429, {"Retry-After": "9" * 400}, 99)]
    run = weights("download", "--match", "*0.1b*")
    assert run.returncode == 1
    assert f"{SMALL}: {published.url} answers 429; try later." in run.stderr
    assert slept
    assert max(slept) <= remote.LONGEST_WAIT_S + 1  # the client adds a second


def test_very_many_broken_connections_are_survived(hub, weights, home, monkeypatch) -> None:
    monkeypatch.setattr(remote, "PIECE_BYTES", 100)
    hub.put(REPO, SMALL, body(150_000))
    hub.cuts[SMALL] = [150] * 1100
    run = weights("download", "--match", "*")
    assert run.returncode == 0, run.stderr
    assert (home / "weights" / SMALL).read_bytes() == body(150_000)


def test_the_token_stays_with_the_hub(published, weights, home, elsewhere) -> None:
    elsewhere.put(REPO, SMALL, body(300_000))
    published.moved[SMALL] = f"{elsewhere.url}/{REPO}/resolve/main/{SMALL}"
    run = weights("download", "--match", "*0.1b*")
    assert run.returncode == 0, run.stderr
    assert elsewhere.tokens == [(f"GET /{REPO}/resolve/main/{SMALL}", None)]
    assert (home / "weights" / SMALL).read_bytes() == body(300_000)


@pytest.mark.parametrize(("status", "waits"), [(429, [1, 3]), (503, [1, 2])])
def test_a_busy_hub_is_asked_again(published, weights, status, waits) -> None:
    published.refusals = [(r"/tree/", status, {"Retry-After": "0"}, 1), (r"/resolve/", status, {"Retry-After": "2"}, 1)]
    run = weights("download", "--match", "*0.1b*")
    assert run.returncode == 0, run.stderr
    assert run.waits == waits, "the library adds a second where it waits itself: for a list, and for 429"
    assert len(published.bodies(SMALL)) == 2


@pytest.mark.parametrize(
    ("status", "headers", "code", "words"),
    [
        (401, {"X-Error-Code": "GatedRepo"}, 1, "BlinkDL/rwkv7-g1 is gated: accept its conditions on http://"),
        (403, {"X-Error-Code": "GatedRepo"}, 1, "and set HF_TOKEN to your token"),
        (401, {"X-Error-Message": "Invalid credentials in Authorization header"}, 1, "does not accept the token"),
        (401, {}, 4, "or it is private: check the name, and set HF_TOKEN"),
        (403, {}, 1, "the token may not read BlinkDL/rwkv7-g1"),
        (404, {"X-Error-Code": "RepoNotFound"}, 4, "BlinkDL/rwkv7-g1 is not on http://"),
    ],
)
def test_a_refusal_is_one_sentence_with_what_to_do(published, weights, status, headers, code, words) -> None:
    published.refusals = [(r"/api/models", status, headers, 99)]
    run = weights("download", "--list")
    assert run.returncode == code
    assert words in run.stderr
    assert run.stderr.count("\n") == 1
    assert run.stdout == ""


def test_a_file_that_may_not_be_read_is_one_sentence(published, weights, home) -> None:
    published.refusals = [(r"/resolve/.*0\.1b", 403, {"X-Error-Code": "GatedRepo"}, 99)]
    run = weights("download", "--match", "*")
    assert run.returncode == 8
    assert f"{SMALL}: BlinkDL/rwkv7-g1 is gated" in run.stderr
    assert (home / "weights" / LARGE).exists()


def test_one_missing_repository_does_not_stop_the_other(published, weights, home) -> None:
    run = weights("download", "--repo", REPO, "nobody/nothing", "--match", "*0.1b*")
    assert run.returncode == 8
    assert "nobody/nothing is not on http://" in run.stderr
    assert (home / "weights" / SMALL).exists()


def test_bad_words_are_one_sentence(published, weights) -> None:
    run = weights("download", "--repo", "not a name", "--list")
    assert (run.returncode, run.stderr.count("\n")) == (2, 1)
    assert "OWNER/NAME" in run.stderr
    run = weights("download", "--revision", "nosuch", "--list")
    assert run.returncode == 4
    assert "has no revision 'nosuch'" in run.stderr


def test_no_hub_at_all_is_one_sentence(hub, weights) -> None:
    hub.shutdown()
    hub.socket.close()
    run = weights("download", "--list")
    assert run.returncode == 1
    *again, last = run.stderr.splitlines()
    assert f"{hub.url} does not answer (ConnectError" in last
    assert [line.rpartition("(")[2] for line in again] == [f"asking again in {n}s)" for n in (1, 2, 4)]
    assert run.waits == [1.0, 2.0, 4.0]


def test_offline_says_what_is_cached(published, weights_process, tmp_path) -> None:
    commit = published.commit(REPO)
    repo = tmp_path / "hf" / "hub" / "models--BlinkDL--rwkv7-g1"
    (repo / "blobs").mkdir(parents=True)
    (repo / "blobs" / "ab").write_bytes(b"x" * 100)
    (repo / "snapshots" / commit).mkdir(parents=True)
    (repo / "snapshots" / commit / SMALL).symlink_to("../../blobs/ab")
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    run = weights_process("download", "--match", "*", HF_HUB_OFFLINE="1")
    assert run.returncode == 1
    assert "HF_HUB_OFFLINE is set" in run.stderr
    assert SMALL in run.stdout
    assert f"snapshots/{commit}" in run.stdout
    assert not published.seen


def test_a_hub_cannot_write_outside_the_folder(published, weights, home, monkeypatch) -> None:
    files = published.files(REPO) | {"../../evil.pth": b"x" * 10}
    monkeypatch.setattr(published, "files", lambda repo: files)
    run = weights("download", "--match", "*")
    assert run.returncode == 1
    assert "'../../evil.pth' would not lie in" in run.stderr
    assert not list(home.rglob("evil*"))


@pytest.mark.parametrize(
    "lie",
    [
        {"size": -5}, {"size": "abc"}, {"size": None}, {"size": 1 << 70}, {"oid": "../../x"}, {"oid": ""},
        {"lfs": {"oid": "../../../../evil", "size": 9, "pointerSize": 134}},
        {"lfs": {"oid": "a\0b", "size": 9, "pointerSize": 134}},
        {"lfs": {"oid": "", "size": 9, "pointerSize": 134}},
        {"lfs": {"oid": "a" * 40, "size": 9, "pointerSize": 134}},
        {"lfs": {}},
    ],
)  # fmt: skip
def test_a_listing_that_cannot_be_is_one_sentence(published, weights, home, monkeypatch, lie) -> None:
    entry = {"type": "file", "oid": "a" * 40, "size": 9, "path": "x.pth"}
    monkeypatch.setattr(published.RequestHandlerClass, "_tree", lambda self, _: self._json([entry | lie]))
    run = weights("download", "--match", "*")
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1
    assert f"{REPO} is refused: the hub lists it with a digest or a size that cannot be." in run.stderr
    assert lying(home / "weights") == {}


# -- what lies in the folder


def test_a_link_is_not_written_through(published, weights, home, tmp_path) -> None:
    (home / "weights" / SMALL).symlink_to(tmp_path / "nowhere")
    run = weights("download", "--match", "*0.1b*")
    assert run.returncode == 1
    assert "is another file than the hub's, and stays" in run.stderr
    (home / "weights" / SMALL).unlink()
    part_of(home).symlink_to(tmp_path / "nowhere")
    run = weights("download", "--match", "*0.1b*")
    assert run.returncode == 1
    assert f"{part_of(home)} cannot be written: " in run.stderr
    assert not (tmp_path / "nowhere").exists()
    assert not published.bodies(SMALL)


def test_a_file_that_appears_meanwhile_stays(hub, start, home) -> None:
    hub.put(REPO, SMALL, body(5_000_000))
    process = half_done(hub, start, home)
    (home / "weights" / SMALL).write_bytes(b"mine")
    hub.holds.clear()
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert f"{home / 'weights' / SMALL} has appeared meanwhile, and stays as it is" in err
    assert (home / "weights" / SMALL).read_bytes() == b"mine"


def test_a_file_system_without_hard_links_takes_it(published, weights, home, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    assert weights("download", "--match", "*0.1b*").returncode == 0
    assert lying(home / "weights")[SMALL] == 300_000
    assert not part_of(home).exists()


def test_a_part_beside_a_whole_file_goes(published, weights, home) -> None:
    (home / "weights" / SMALL).write_bytes(body(300_000))
    part_of(home).write_bytes(body(300_000)[:1000])
    assert weights("download", "--match", "*0.1b*").returncode == 0
    assert set(lying(home / "weights")) == {SMALL}


# -- the operator and the machine

PART = 2 << 20


def half_done(hub, start, home, **more):
    """A download of the small checkpoint of which so much lies there, and the hub sends no more."""
    hub.holds[SMALL] = PART + (1 << 19)
    process = start("download", "--match", "*", **more)

    def there() -> bool:
        assert process.poll() is None, process.communicate()
        return any(size >= PART for size in lying(home / "weights").values())

    wait_for(there, "half of the file lies there")
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_download_goes_on(hub, start, weights, home, number) -> None:
    content = body(5_000_000)
    hub.put(REPO, SMALL, content)
    process = half_done(hub, start, home)
    process.send_signal(number)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "interrupted with 0 of 1 file whole; the same command goes on" in err
    assert "Traceback" not in err
    (part,) = lying(home / "weights")
    assert part.startswith(SMALL)
    assert part.endswith(".part")
    hub.holds.clear()
    run = weights("download", "--match", "*")
    assert run.returncode == 0, run.stderr
    assert "resumed at" in run.stderr
    assert (home / "weights" / SMALL).read_bytes() == content
    assert begun_at(hub.bodies(SMALL)[1]) >= PART


def test_a_killed_download_goes_on(hub, start, weights, home) -> None:
    content = body(5_000_000)
    hub.put(REPO, SMALL, content)
    process = half_done(hub, start, home)
    process.kill()
    process.communicate()
    hub.holds.clear()
    assert weights("download", "--match", "*").returncode == 0
    assert (home / "weights" / SMALL).read_bytes() == content


def test_two_downloads_of_one_file_do_not_mix(hub, start, weights, home) -> None:
    content = body(5_000_000)
    hub.put(REPO, SMALL, content)
    process = half_done(hub, start, home)
    second = weights("download", "--match", "*")
    assert second.returncode == 1
    assert "another download is fetching it" in second.stderr
    hub.holds.clear()
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    assert (home / "weights" / SMALL).read_bytes() == content


def test_a_folder_that_cannot_be_written_is_one_sentence(published, weights, tmp_path) -> None:
    (tmp_path / "file").write_text("in the way")
    run = weights("download", "--match", "*", "--to", str(tmp_path / "file"))
    assert run.returncode == 1
    assert "Traceback" not in run.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to mount a small tmpfs")
def test_a_disk_that_is_too_small_is_refused_before_it_starts(published, weights, tmp_path, monkeypatch) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if os.system(f"mount -t tmpfs -o size=1m tmpfs {small} 2>/dev/null"):
        pytest.skip("needs mount: not permitted")
    try:
        run = weights("download", "--match", "*", "--to", str(small))
        assert run.returncode == 1
        assert "has 1.0 MiB free, and 977 KiB are to be fetched (256.0 MiB stay spare)" in run.stderr
        assert lying(small) == {}
        (small / "filler").write_bytes(b"x" * 800_000)
        monkeypatch.setenv("RWKVCTL_MIN_FREE_DISK_BYTES", "0")
        run = weights("download", "--match", "*", "--to", str(small))
        assert "to be fetched" in run.stderr
    finally:
        os.system(f"umount {small}")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to mount a small tmpfs")
def test_a_disk_that_becomes_full_keeps_what_is_there(hub, start, home) -> None:
    folder = home / "weights"
    if os.system(f"mount -t tmpfs -o size=8m tmpfs {folder} 2>/dev/null"):
        pytest.skip("needs mount: not permitted")
    try:
        hub.put(REPO, SMALL, body(5_000_000))
        process = half_done(hub, start, home, RWKVCTL_MIN_FREE_DISK_BYTES="0")
        (folder / "filler").write_bytes(b"x" * (4 << 20))
        with contextlib.suppress(OSError):
            (folder / "more").write_bytes(b"x" * (4 << 20))
        hub.holds.clear()
        _, err = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 1
        assert f"the disk of {folder} is full; 2.0 MiB of 4.8 MiB are kept: free some, and run it again" in err
        (folder / "more").unlink()
        (folder / "filler").unlink()
        again, err = (process := start("download", "--match", "*", RWKVCTL_MIN_FREE_DISK_BYTES="0")).communicate()
        assert process.returncode == 0, again + err
        assert (folder / SMALL).read_bytes() == body(5_000_000)
    finally:
        os.system(f"umount {folder}")
