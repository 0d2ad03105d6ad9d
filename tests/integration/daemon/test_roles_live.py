"""Users of the machine, each with the rights that the configuration gives them, at a real daemon."""

import contextlib
import json
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rwkvctl.client import Client, uid_of
from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.sockets import bind_unix

ALICE, BOB, CAROL, MALLORY = 64001, 64002, 64003, 64004
LAB, TRUSTED = 64100, 64101
CONFIG = f"""
socket_group = "{LAB}"
requests_per_s = 2.0

[roles]
operator = [{BOB}]
admin = ["@{TRUSTED}"]
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to ask as other users")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user of the machine may pass; pytest's own are private."""
    folder = Path(tempfile.mkdtemp(prefix="rwkvctl-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def shared(new_node: Callable[..., Any], place: Path) -> Any:
    """A daemon of root's for a group and its users."""
    (place / "rwkvctl").mkdir()
    (place / "rwkvctl" / "config.toml").write_text(CONFIG)
    node = new_node(socket=str(place / "run" / "daemon.sock"))
    node.settings["XDG_CONFIG_HOME"] = str(place)
    return node.start()


def as_user(uid: int, groups: list[int], what: Callable[[], Any]) -> Any:
    """What a function returns in a process of that user. A fork: the interpreter may lie where only root may read."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.setgroups(groups)
            os.setgid(uid)
            os.setuid(uid)
            os.write(writer, json.dumps(what()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(said)


def asked(path: Path, route: str, body: dict[str, Any] | None = None, **settings: Any) -> Callable[[], Any]:
    """A question; the answer is the reply, or code, sentence and exit code of the refusal."""

    def ask() -> Any:
        client = Client(str(path), tries=1, **settings)
        try:
            return (client.get(route) if body is None else client.post(route, body)).value
        except RwkvctlError as error:
            return {"error": getattr(error, "code", ""), "says": str(error), "exit": int(error.exit_code)}

    return ask


@needs_root
def test_the_socket_belongs_to_its_group(shared: Any) -> None:
    found, folder = shared.socket.stat(), shared.socket.parent.stat()
    assert (found.st_gid, stat.S_IMODE(found.st_mode)) == (LAB, 0o660)
    assert (folder.st_gid, stat.S_IMODE(folder.st_mode)) == (LAB, 0o710)
    assert as_user(ALICE, [LAB], asked(shared.socket, "/v1/status"))["schema"] == "rwkvctl.status/1"
    refused = as_user(ALICE, [], asked(shared.socket, "/v1/status"))
    assert refused["exit"] == Exit.UNREACHABLE
    assert "You may not use the daemon's socket" in refused["says"]


@needs_root
def test_each_may_do_what_their_role_says_and_all_is_written_down(shared: Any) -> None:
    stop = asked(shared.socket, "/v1/stop", {"jobs": ["j1"]})
    trail = asked(shared.socket, "/v1/audit")
    refused = as_user(ALICE, [LAB], stop)
    assert (refused["error"], refused["exit"]) == ("role", Exit.REFUSED)
    assert f"{ALICE} is a viewer here, and `stop` needs an operator: nothing was changed." in refused["says"]
    assert as_user(ALICE, [LAB], trail)["error"] == "role"
    assert as_user(BOB, [LAB], stop)["items"][0]["error"].startswith("There is no job j1")
    assert as_user(CAROL, [LAB, TRUSTED], stop)["schema"] == "rwkvctl.changed/1"
    assert as_user(BOB, [LAB], asked(shared.socket, "/v1/reload", {}))["error"] == "role"
    assert as_user(CAROL, [LAB, TRUSTED], asked(shared.socket, "/v1/reload", {}))["schema"] == "rwkvctl.reload/1"
    items = as_user(BOB, [LAB], trail)["items"]
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
    assert [line.split("\t")[1:2] + line.split("\t")[4:] for line in shown[-2:]] == [
        [str(ALICE), "audit", "", "refused: role"],
        [str(ALICE), "stop", "j1", "refused: role"],
    ]


@needs_root
def test_rights_change_with_a_reload(shared: Any, place: Path) -> None:
    stop = asked(shared.socket, "/v1/stop", {"jobs": ["j1"]})
    assert as_user(ALICE, [LAB], stop)["error"] == "role"
    (place / "rwkvctl" / "config.toml").write_text(CONFIG.replace(str(BOB), str(ALICE)))
    shared.cli("reload")
    assert as_user(ALICE, [LAB], stop)["schema"] == "rwkvctl.changed/1"
    assert as_user(BOB, [LAB], stop)["error"] == "role"


@needs_root
def test_who_asks_too_often_is_told_so_and_others_are_not(shared: Any) -> None:
    def flood() -> Any:
        ask = asked(shared.socket, "/v1/info")
        return [ask() for _ in range(40)]

    answers = as_user(ALICE, [LAB], flood)
    refused = [answer for answer in answers if answer.get("error") == "too-many-requests"]
    assert refused
    assert len(answers) - len(refused) >= 20, "a burst of ten seconds is let through"
    assert "asks more than 2 times a second" in refused[0]["says"]
    assert as_user(BOB, [LAB], asked(shared.socket, "/v1/info"))["schema"] == "rwkvctl.info/1"
    assert all(
        answer["schema"] == "rwkvctl.info/1" for answer in [asked(shared.socket, "/v1/info")() for _ in range(40)]
    )


@needs_root
def test_a_header_gets_nobody_round_the_limit_and_makes_no_trouble(shared: Any) -> None:
    """The version is looked at after the limit, and a number without end is no mistake of ours."""

    def flood() -> Any:
        return [str(answer_to(shared.socket, f"rwkvctl-protocol: {'9' * 5000}{number}")) for number in range(40)]

    answers = as_user(ALICE, [LAB], flood)
    assert {answer[:3] for answer in answers} == {"426", "429"}
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
        return [ask()["error"] for _ in range(45)]

    assert set(as_user(ALICE, [LAB], flood)) <= {"role", "too-many-requests"}
    assert 15 <= len(asked(shared.socket, "/v1/audit")()["items"]) <= 31


@needs_root
def test_a_client_does_not_talk_to_a_strangers_socket(place: Path) -> None:
    place.chmod(0o777)
    path = place / "daemon.sock"
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


def test_a_group_that_there_is_not_is_said_at_start(new_node: Callable[..., Any]) -> None:
    node = new_node(socket_group="no-such-group").start()
    assert node.daemon.wait(30) == Exit.USAGE
    assert "socket_group: there is no group no-such-group; make it with `groupadd -r no-such-group`" in node.log()


def test_a_role_that_there_is_not_is_said_at_start(new_node: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "rwkvctl").mkdir()
    (tmp_path / "rwkvctl" / "config.toml").write_text('[roles]\nsuperuser = ["alice"]\n')
    node = new_node()
    node.settings["XDG_CONFIG_HOME"] = str(tmp_path)
    node.start()
    assert node.daemon.wait(30) == Exit.USAGE
    assert "config.toml:1: [roles] knows viewer, operator and admin, not 'superuser'." in node.log()
