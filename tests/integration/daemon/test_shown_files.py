"""A user of the daemon reaches through it no file that they cannot read themselves."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from other_users import as_user, asked, needs_root
from waiting import wait_for

from rwkv_daemon.host.shown_files import AT_ONCE_OF_A_USER
from rwkv_daemon.import_rwkv_skills import checked_files
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.cli.client import Client
from rwkvctl.cli.show_files import show
from rwkvctl.protocol.showing import TAKEN, socket_beside

pytestmark = needs_root
BOB, LAB = 64002, 64100
CONFIG = f"""
socket_group = "{LAB}"
log_link_dirs = "{{logs}}"

[roles]
operator = [{BOB}]
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that every user of the machine may pass, with one of Bob's and one of root's."""
    folder = Path(tempfile.mkdtemp(prefix="rwkvctl-", dir="/tmp"))
    folder.chmod(0o755)
    for name, owner in (("bob", BOB), ("root", 0), ("logs", BOB)):
        (folder / name).mkdir(mode=0o755)
        os.chown(folder / name, owner, owner)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def node(module_node: Callable[..., Any], place: Path) -> Any:
    """A daemon of root's that Bob operates."""
    (place / "rwkvctl").mkdir()
    (place / "rwkvctl" / "config.toml").write_text(CONFIG.format(logs=place / "logs"))
    node = module_node(socket=str(place / "run" / "daemon.sock"))
    node.settings["XDG_CONFIG_HOME"] = str(place)
    node.start()
    node.until(Path(socket_beside(str(node.socket))).exists, "the daemon takes descriptors")
    return node


def checkpoint(path: Path, owner: int) -> Path:
    """A checkpoint that its owner alone may read, and none like it."""
    path.write_bytes(builtin_checkpoint_path().read_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = path.name.encode()
    os.chown(path, owner, owner)
    path.chmod(0o600)
    return path


def dispatched(node: Any, path: Path, *, shown: bool = True, **more: Any) -> Any:
    """What Bob is told when he dispatches a checkpoint by its path, after showing whatever he can open of it."""
    files = [{"path": str(path)}]
    selection = {"models": [str(path)], "files": files, "only_datasets": ["demo_arith"], "limit": 2} | more

    def ask() -> Any:
        if shown:
            show(Client(str(node.socket)), [str(path)])
        return asked(node.socket, "/v1/dispatch", {"selection": selection})()

    return as_user(BOB, [LAB], ask)


def hashed_paths(node: Any) -> list[str]:
    """The files whose sha256 the daemon knows."""
    with contextlib.closing(sqlite3.connect(f"{(node.home / 'store.sqlite').as_uri()}?mode=ro", uri=True)) as store:
        return [path for (path,) in store.execute("SELECT path FROM weights")]


def test_what_bob_can_read_is_measured_for_him(node: Any, place: Path) -> None:
    (name,) = dispatched(node, checkpoint(place / "bob" / "his.pth", BOB))["jobs"]
    assert node.wait_for_state(name, "done", "failed")["state"] == "done"
    layout = place / "bob" / "layout"
    layout.mkdir(mode=0o700)
    os.chown(layout, BOB, BOB)
    refused = dispatched(node, layout)
    assert "there is no checkpoint that you may read" in refused["says"], "a folder without weights"


def test_what_bob_cannot_read_is_refused_as_if_it_were_not_there(node: Any, place: Path) -> None:
    secret, nothing = checkpoint(place / "root" / "secret.pth", 0), place / "root" / "nothing.pth"
    told = dispatched(node, secret)
    assert (told["exit"], told["says"]) == (2, dispatched(node, nothing)["says"].replace("nothing.pth", "secret.pth"))
    plan = {"selection": {"checkpoints": [{"path": str(secret)}], "only_datasets": ["demo_arith"]}}
    assert as_user(BOB, [LAB], asked(node.socket, "/v1/plan", plan))["says"] == told["says"]
    link = place / "bob" / "link.pth"
    link.symlink_to(secret)
    assert "there is no checkpoint that you may read" in dispatched(node, link)["says"]


def test_what_was_not_shown_does_not_count(node: Any, place: Path) -> None:
    path = checkpoint(place / "bob" / "unshown.pth", BOB)
    assert "there is no checkpoint that you may read" in dispatched(node, path, shown=False)["says"]


def test_a_descriptor_that_reads_nothing_shows_nothing(node: Any, place: Path) -> None:
    secret = checkpoint(place / "root" / "by-path.pth", 0)
    mine = checkpoint(place / "bob" / "write-only.pth", BOB)
    mine.chmod(0o200)

    def pass_on() -> str:
        descriptors = [os.open(secret, os.O_PATH), os.open(mine, os.O_WRONLY)]
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.connect(socket_beside(str(node.socket)))
            socket.send_fds(link, [TAKEN], descriptors)
            return link.recv(1).decode()

    assert as_user(BOB, [LAB], pass_on).encode() == TAKEN
    for path in (secret, mine):
        assert "there is no checkpoint that you may read" in dispatched(node, path, shown=False)["says"]


def test_a_link_in_the_place_of_a_shown_file_leads_nowhere(node: Any, place: Path) -> None:
    """The job waits, as its file is half copied; then the path leads to a file of root's, and back."""
    secret = checkpoint(place / "root" / "valuable.pth", 0)
    path = checkpoint(place / "bob" / "turned.pth", BOB)
    whole = path.read_bytes()
    os.truncate(path, len(whole) // 2)
    (name,) = dispatched(node, path)["jobs"]
    node.until(lambda: node.job(name)["reason"] == "weights-copying", "the copy is noticed")
    kept = path.rename(path.with_suffix(".kept"))
    path.symlink_to(secret)
    node.until(lambda: node.job(name)["reason"] == "weights-missing", "another file lies there")
    assert "is another file by now" in node.job(name)["detail"]
    path.unlink()
    kept.rename(path)
    path.write_bytes(whole)
    node.look_at_held()
    assert "is another file by now" in node.job(name)["detail"], "what was changed since has to be shown again"
    (again,) = dispatched(node, path)["jobs"]
    assert node.wait_for_state(again, "done", "failed")["state"] == "done"
    assert str(path) in hashed_paths(node)
    assert str(secret) not in hashed_paths(node)
    assert hashed_paths(node).count(str(path)) == 1, "nothing else was hashed under that path"


def test_a_later_file_with_the_number_of_a_shown_one_is_another_file(node: Any, place: Path) -> None:
    """File systems give the numbers of deleted files to the next ones."""
    path, secret = checkpoint(place / "bob" / "soon-gone.pth", BOB), place / "root" / "later.pth"
    as_user(BOB, [LAB], lambda: show(Client(str(node.socket)), [str(path)]))
    shown = path.stat().st_ino
    path.unlink()
    spares = []
    while checkpoint(secret, 0).stat().st_ino != shown and len(spares) < 100:
        spares.append(secret.rename(secret.with_suffix(f".{len(spares)}")))
    for spare in spares:
        spare.unlink()
    assert "there is no checkpoint that you may read" in dispatched(node, secret, shown=False)["says"]


def receivers(node: Any) -> list[int]:
    """The processes that take descriptors for a daemon now."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (place / "cmdline").read_bytes()
            parent = (place / "stat").read_bytes().rpartition(b")")[2].split()[1]
            if b"received_descriptors.py" in words and int(parent) == node.daemon.pid:
                found.append(int(place.name))
    return found


def test_a_descriptor_that_never_answers_holds_up_its_user_alone(node: Any, place: Path) -> None:
    """A file system of a user's own may let whoever asks about a file wait for ever: here the process that asks is
    stopped."""
    wait_for(lambda: not receivers(node), "those of other tests have ended")
    links = []
    for _ in range(AT_ONCE_OF_A_USER):
        links.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        links[-1].connect(socket_beside(str(node.socket)))
    wait_for(lambda: len(receivers(node)) == len(links), "each has a process")
    hung = receivers(node)
    for pid in hung:
        os.kill(pid, signal.SIGSTOP)
    for link in links:
        socket.send_fds(link, [TAKEN], [0])
    assert node.api.get("/v1/info").value["pid"] == node.daemon.pid
    (name,) = dispatched(node, checkpoint(place / "bob" / "beside.pth", BOB))["jobs"]
    assert node.wait_for_state(name, "done", "failed")["state"] == "done"
    for pid in hung:
        os.kill(pid, signal.SIGCONT)
    for link in links:
        link.close()
    wait_for(lambda: not receivers(node), "they end with their clients")


def summary(path: Path, owner: int, model: str) -> Path:
    path.parent.mkdir(exist_ok=True, mode=0o755)
    os.chown(path.parent, owner, owner)
    score = {"dataset": "gsm8k_test", "model": model, "cot": True, "metrics": {"accuracy": 0.5}, "samples": 2}
    path.write_text(json.dumps(score))
    os.chown(path, owner, owner)
    path.chmod(0o600)
    return path


def test_who_shows_much_is_listened_to_in_turn(node: Any, place: Path) -> None:
    path = checkpoint(place / "bob" / "often.pth", BOB)

    def taken(_: int) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link, path.open("rb") as file:
            link.connect(socket_beside(str(node.socket)))
            socket.send_fds(link, [TAKEN], [file.fileno()])
            return link.recv(1) == TAKEN

    def often() -> list[bool]:
        with ThreadPoolExecutor(6) as crowd:
            return [*map(taken, range(6)), *crowd.map(taken, range(12))]

    assert as_user(BOB, [LAB], often) == [True] * 18


def test_a_shown_checkpoint_that_changes_is_shown_again_by_another_dispatch(node: Any, place: Path) -> None:
    path = checkpoint(place / "bob" / "linked.pth", BOB)
    node.cli("pause", "--queue")
    (name,) = dispatched(node, path)["jobs"]
    node.until(lambda: node.job(name)["state"] == "queued", "its weights are hashed")
    os.link(path, place / "bob" / "second.pth")
    node.cli("resume", "--queue")
    node.until(lambda: "dispatch it once more" in node.job(name).get("detail", ""), "it is held")
    assert "jobs" in dispatched(node, path)
    assert node.wait_for_state(name, "done", "failed")["state"] == "done"


def test_an_import_takes_what_bob_can_read_and_tells_of_nothing_else(node: Any, place: Path) -> None:
    results = place / "bob" / "results"
    summary(results / "his.json", BOB, "rwkv7-g1-0.1b")
    summary(results / "roots.json", 0, "rwkv7-g1-0.4b")
    summary(place / "root" / "own.json", 0, "rwkv7-g1-1.5b")

    def imported(path: Path) -> Any:
        def ask() -> Any:
            show(Client(str(node.socket)), [str(path)])
            return asked(node.socket, "/v1/import", {"path": str(path), "dry_run": True})()

        return as_user(BOB, [LAB], ask)

    assert [Path(item["source"]).name for item in imported(results)["items"]] == ["his.json"]
    told = imported(place / "root" / "own.json")
    assert "there is nothing that you may read" in told["says"]
    assert imported(place / "root" / "none.json") == told | {"says": told["says"].replace("own.json", "none.json")}


@pytest.mark.parametrize("target", ["/etc/passwd", "/nonexistent", "/root", "/dev/null"])
def test_a_link_that_is_turned_while_an_import_reads_tells_nothing_of_where_it_leads(
    tmp_path: Path, target: str
) -> None:
    link = tmp_path / "turned.json"
    link.symlink_to(target)
    token = checked_files.MAY_READ.set(lambda _: False)
    try:
        with pytest.raises(checked_files.BadFileError) as caught:
            checked_files.opened(link)
    finally:
        checked_files.MAY_READ.reset(token)
    assert str(caught.value) == f"{link}: there is no plain file that you may read, of 16 GiB at most"


def test_links_to_logs_are_made_where_the_setting_allows(node: Any, place: Path) -> None:
    refused = dispatched(node, checkpoint(place / "bob" / "a.pth", BOB), run_log_dir=str(place / "root"))
    assert f"folders for links to logs must lie under {place / 'logs'}" in refused["says"]
    for upwards in (f"{place}/logs/../root", f"{place}/logs-too"):
        assert "folders for links to logs" in dispatched(node, place / "bob" / "a.pth", run_log_dir=upwards)["says"]
    (name,) = dispatched(node, place / "bob" / "a.pth", run_log_dir=str(place / "logs" / "mine"))["jobs"]
    node.wait_for_state(name, "done")
    (link,) = (place / "logs" / "mine").iterdir()
    assert link.readlink().is_relative_to(node.home / "runs" / name)
    (place / "logs" / "turned").symlink_to(place / "root")
    (name,) = dispatched(node, checkpoint(place / "bob" / "b.pth", BOB), run_log_dir=str(place / "logs" / "turned"))[
        "jobs"
    ]
    node.wait_for_state(name, "done")
    assert not list((place / "root").glob("*.log")), "no link below the root is followed"


def test_the_socket_for_descriptors_is_made_again(node: Any) -> None:
    path = Path(socket_beside(str(node.socket)))
    path.unlink()
    node.until(path.exists, "it is there again")
