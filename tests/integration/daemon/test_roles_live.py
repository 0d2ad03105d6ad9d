"""Users of the machine, each with the rights that the configuration gives them, at a real daemon."""

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from other_users import as_user, asked, needs_root
from waiting import wait_for

from rwkv_daemon.api import grants
from rwkv_daemon.host import socket_folder
from rwkvctl.cli.client import uid_of
from rwkvctl.http.listeners import bind_unix
from rwkvctl.http.peer_credentials import OWN_SUFFIX
from rwkvctl.protocol.errors import ConfigError, Exit
from rwkvctl.settings import config

ALICE, BOB, CAROL, MALLORY = 64001, 64002, 64003, 64004
HASTY, RUDE, STUBBORN, FLOODER = 64005, 64006, 64007, 64008
LAB, TRUSTED = 64100, 64101
CONFIG = f"""
socket_group = "{LAB}"
requests_per_s = 2.0

[roles]
operator = [{BOB}]
admin = ["@{TRUSTED}"]
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that every user of the machine may pass; pytest's own are private."""
    folder = Path(tempfile.mkdtemp(prefix="rwkvctl-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def shared(module_node: Callable[..., Any], place: Path) -> Any:
    """A daemon of root's for a group and its users. All tests ask it; who floods it is a user of that test alone."""
    (place / "rwkvctl").mkdir()
    (place / "rwkvctl" / "config.toml").write_text(CONFIG)
    node = module_node(socket=str(place / "run" / "daemon.sock"))
    node.settings["XDG_CONFIG_HOME"] = str(place)
    return node.start()


@needs_root
def test_the_socket_belongs_to_its_group(shared: Any) -> None:
    found, folder = shared.socket.stat(), shared.socket.parent.stat()
    assert (found.st_gid, stat.S_IMODE(found.st_mode)) == (LAB, 0o660)
    assert (folder.st_gid, stat.S_IMODE(folder.st_mode)) == (LAB, 0o710)
    assert as_user(ALICE, [LAB], asked(shared.socket, "/v1/status"))["schema"] == "rwkvctl.status/1"
    refused = as_user(ALICE, [], asked(shared.socket, "/v1/status"))
    assert refused["exit"] == Exit.UNREACHABLE
    assert "You have no permission for the daemon's socket" in refused["says"]


@needs_root
def test_each_may_do_what_their_role_says_and_all_is_written_down(shared: Any) -> None:
    stop = asked(shared.socket, "/v1/stop", {"jobs": ["j1"]})
    trail = asked(shared.socket, "/v1/audit")
    before = len(trail()["items"])
    refused = as_user(ALICE, [LAB], stop)
    assert (refused["error"], refused["exit"]) == ("role", Exit.REFUSED)
    assert f"{ALICE} is a viewer here, and `stop` needs an operator: nothing was changed." in refused["says"]
    assert as_user(ALICE, [LAB], trail)["error"] == "role"
    assert as_user(BOB, [LAB], stop)["items"][0]["error"].startswith("There is no job j1")
    assert as_user(CAROL, [LAB, TRUSTED], stop)["schema"] == "rwkvctl.changed/1"
    assert as_user(BOB, [LAB], asked(shared.socket, "/v1/reload", {}))["error"] == "role"
    assert as_user(CAROL, [LAB, TRUSTED], asked(shared.socket, "/v1/reload", {}))["schema"] == "rwkvctl.reload/1"
    every = as_user(BOB, [LAB], trail)["items"]
    items = every[: len(every) - before]
    assert [(item["uid"], item["verb"], item["outcome"]) for item in items] == [
        (CAROL, "reload", "done"),
        (BOB, "reload", "refused: role"),
        (CAROL, "stop", "unchanged"),
        (BOB, "stop", "unchanged"),
        (ALICE, "audit", "refused: role"),
        (ALICE, "stop", "refused: role"),
    ]
    assert all(item["pid"] > 0 and item["user"] == str(item["uid"]) for item in items)
    shown = shared.cli("audit", "--user", str(ALICE), "--since", "1h", "-o", "tsv").stdout.splitlines()
    own = [line.split("\t")[1:2] + line.split("\t")[4:] for line in shown if str(ALICE) in line]
    assert own[:2] == [
        [str(ALICE), "audit", "", "refused: role"],
        [str(ALICE), "stop", "j1", "refused: role"],
    ]


@needs_root
def test_rights_change_with_a_reload(shared: Any, place: Path) -> None:
    stop = asked(shared.socket, "/v1/stop", {"jobs": ["j1"]})
    assert as_user(ALICE, [LAB], stop)["error"] == "role"
    file = place / "rwkvctl" / "config.toml"
    try:
        file.write_text(CONFIG.replace(str(BOB), str(ALICE)))
        shared.cli("reload")
        assert as_user(ALICE, [LAB], stop)["schema"] == "rwkvctl.changed/1"
        assert as_user(BOB, [LAB], stop)["error"] == "role"
    finally:
        file.write_text(CONFIG)
        shared.cli("reload")
    assert as_user(ALICE, [LAB], stop)["error"] == "role"


MANY = 1000
"""Questions of which one is refused on however slow a machine, which gives back two a second."""


@needs_root
def test_who_asks_too_often_is_told_so_and_others_are_not(shared: Any) -> None:
    def flood() -> Any:
        ask, answers = asked(shared.socket, "/v1/info"), []
        while len(answers) < MANY and (not answers or "error" not in answers[-1]):
            answers.append(ask())
        return [len(answers), answers[-1]]

    number, refused = as_user(HASTY, [LAB], flood)
    assert refused["error"] == "too-many-requests"
    assert number > 20, "a burst of ten seconds is let through"
    assert "sends more than 2 requests a second" in refused["says"]
    assert as_user(BOB, [LAB], asked(shared.socket, "/v1/info"))["schema"] == "rwkvctl.info/1"
    assert all(
        answer["schema"] == "rwkvctl.info/1" for answer in [asked(shared.socket, "/v1/info")() for _ in range(40)]
    )


@needs_root
def test_a_header_gets_nobody_round_the_limit_and_makes_no_trouble(shared: Any) -> None:
    """The version is looked at after the limit, and a number without end is no mistake of ours."""

    def flood() -> Any:
        answers = [""]
        while len(answers) < MANY and answers[-1] != "429":
            answers.append(answer_to(shared.socket, f"rwkvctl-protocol: {'9' * 5000}{len(answers)}"))
        return answers[1:]

    answers = as_user(RUDE, [LAB], flood)
    assert set(answers) == {"426", "429"}
    assert "Traceback" not in shared.log()
    assert "9" * 100 not in shared.log()


def answer_to(path: Path, header: str) -> str:
    """The status of a request with a header of one's own."""
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(str(path))
        link.sendall(f"GET /v1/info HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{header}\r\n\r\n".encode())
        with link.makefile("rb") as reply:
            return reply.readline().split()[1].decode()


@needs_root
def test_attempts_of_one_who_keeps_trying_do_not_fill_the_trail(shared: Any) -> None:
    def flood() -> Any:
        ask = asked(shared.socket, "/v1/audit")
        return [[answer["error"], answer["says"]] for answer in (ask() for _ in range(45))]

    refusals = as_user(STUBBORN, [LAB], flood)
    assert {error for error, _ in refusals} <= {"role", "too-many-requests"}, refusals
    items = asked(shared.socket, f"/v1/audit?user={STUBBORN}")()["items"]
    assert 15 <= len(items) <= 31
    assert {item["uid"] for item in items} == {STUBBORN}


@needs_root
def test_a_client_does_not_talk_to_a_strangers_socket(place: Path) -> None:
    (place / "open").mkdir()
    (place / "open").chmod(0o777)
    path = place / "open" / "daemon.sock"
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.setgid(MALLORY)
            os.setuid(MALLORY)
            listener = bind_unix(path)
            os.write(writer, b"!")
            link, _ = listener.accept()
            os.write(writer, link.recv(10_000) or b"nothing")
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        assert pipe.read(1) == b"!"
        found = asked(path, "/v1/status", service_user="rwkvctl")()
        assert pipe.read(10_000) == b"nothing"
    os.waitpid(pid, 0)
    assert (found["error"], found["exit"]) == ("wrong-owner", Exit.REFUSED)
    assert f"runs as user {MALLORY}, not as you, root or rwkvctl; nothing was sent" in found["says"]


def test_the_number_of_a_user() -> None:
    assert uid_of("root") == 0
    assert uid_of("nobody of that name") is None


def test_a_group_that_there_is_not_is_said_at_start(tmp_path: Path) -> None:
    settings = config.load({"home": str(tmp_path)}, {"HOME": str(tmp_path), "RWKVCTL_SOCKET_GROUP": "no-such-group"})
    with pytest.raises(ConfigError, match="there is no group no-such-group; make it with `groupadd -r no-such-group`"):
        socket_folder.make_folder(settings)


def test_a_role_that_there_is_not_is_said_at_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rwkvctl").mkdir()
    (tmp_path / "rwkvctl" / "config.toml").write_text('[roles]\nsuperuser = ["alice"]\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"config.toml:1: a role is viewer, operator or admin, not 'superuser'"):
        grants.load()


FLOOD = """
import os, socket, sys
path, uid, gid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.setgroups([gid]); os.setgid(uid); os.setuid(uid)
print("floods", flush=True)
kept = []
while True:
    link = socket.socket(socket.AF_UNIX)
    link.setblocking(False)
    try:
        link.connect(path)
    except OSError:
        link.close()
        continue
    kept.append(link)
    if len(kept) > 2000:
        kept.pop(0).close()
"""


@needs_root
def test_a_viewer_who_takes_every_connection_keeps_neither_root_nor_its_tools_out(shared: Any) -> None:
    own = shared.socket.with_name(shared.socket.name + OWN_SUFFIX)
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    argv = [sys.executable, "-I", "-S", "-c", FLOOD, str(shared.socket), str(FLOODER), str(LAB)]

    def is_served() -> bool:
        return "error" not in as_user(ALICE, [LAB], asked(shared.socket, "/v1/info"))

    with contextlib.ExitStack() as stack:
        # a thousand dead connections outlive the flooders in the socket's queue, and the next test is for a user, too
        stack.callback(wait_for, is_served, "users of the group are served again")
        for _ in range(2):
            flooding = stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE))
            stack.callback(flooding.kill)
            assert flooding.stdout is not None
            assert flooding.stdout.readline() == b"floods\n"

        def is_full() -> bool:
            with socket.socket(socket.AF_UNIX) as link:
                link.setblocking(False)
                try:
                    link.connect(str(shared.socket))
                except BlockingIOError:
                    return True
                return False

        wait_for(is_full, "the socket is full")
        full = as_user(ALICE, [LAB], asked(shared.socket, "/v1/info"))
        if "error" in full:  # else the daemon has just made room
            assert "is too busy (its queue of new connections is full)" in full["says"]
        for _ in range(10):
            answer = asked(shared.socket, "/v1/info")()
            assert answer.get("schema") == "rwkvctl.info/1", answer
