"""A socket whose file is deleted is made again; who is connected stays."""

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import LIMIT_S, wait_for


def follower(node: Any) -> socket.socket:
    """Somebody who follows events, and has heard that they come."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(LIMIT_S)
    client.connect(str(node.socket))
    client.sendall(b"GET /v1/events?follow=yes HTTP/1.1\r\nhost: daemon\r\n\r\n")
    assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
    return client


def hears(client: socket.socket, word: bytes) -> bool:
    heard = b""
    while word not in heard and (more := client.recv(1 << 16)):
        heard += more
    return word in heard


@pytest.mark.parametrize("what", ["socket", "folder"])
def test_a_deleted_socket_is_made_again_and_nobody_is_dropped(new_node: Callable[..., Any], what: str) -> None:
    node = new_node().start()
    with follower(node) as client:
        if what == "socket":
            node.socket.unlink()
        else:
            shutil.rmtree(node.socket.parent)
        assert not node.answers()
        wait_for(node.answers, "it answers again", node.log)
        assert node.socket.stat().st_mode & 0o777 == 0o600
        node.dispatch(limit=1)
        assert hears(client, b"job.state")
    assert "was deleted; the daemon has made it again" in node.log()
    assert node.terminate() == 0
    assert not node.socket.exists()


def test_a_socket_of_the_service_manager_is_replaced_by_one_of_our_own(
    new_node: Callable[..., Any], launched: Callable[[Any, socket.socket], None]
) -> None:
    node = new_node()
    node.socket.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(node.socket))
        listener.listen(64)
        launched(node, listener)
        wait_for(node.answers, "it answers", node.log)
        node.socket.unlink()
        wait_for(node.answers, "it answers again", node.log)
        (note,) = [one for one in node.api.get("/v1/status").value["notes"] if "was deleted" in one]
        assert "`systemctl restart rwkvctl.socket rwkvctl`" in note
        assert node.terminate() == 0
        assert not node.socket.exists(), "ours goes with us"
        launched(node, listener)  # whose file is gone still
        wait_for(node.answers, "it answers again", node.log)


def test_a_socket_that_somebody_else_put_there_is_left_alone(new_node: Callable[..., Any]) -> None:
    node = new_node().start()
    node.socket.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(node.socket))
        other.listen(8)
        inode = node.socket.stat().st_ino
        wait_for(lambda: "another process answers on" in node.log(), "it says so", node.log)
        assert node.terminate() == 0
        assert node.socket.stat().st_ino == inode
    node.socket.unlink()


def test_what_was_never_finished_beside_files_of_engines_goes(new_node: Callable[..., Any]) -> None:
    node = new_node(idle_unload_s="0.1").start()
    (name,) = node.dispatch(limit=1)
    node.wait_for_state(name, "done")
    node.wait_until_cold()
    node.kill()
    folder = Path(node.home) / "runs" / "engines" / "e1"
    kept = json.loads((folder / "row.json").read_text())
    for torn in ("row.json.tmp", "record.json.tmp"):
        (folder / torn).write_text("{")
    node.start()
    wait_for(lambda: not list(folder.glob("*.tmp")), "they are gone", node.log)
    assert json.loads((folder / "row.json").read_text()) == kept
