"""The service's files: made for this installation, told from edited ones, and without what breaks the daemon."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.cli.service import units
from rwkvctl.cli.service.units import FORBIDDEN, UnitFile, forbidden_in, signed, state, text_of, unreachable, write
from rwkvctl.settings import config

UNITS = ("rwkvctl.service", "rwkvctl.socket", "user/rwkvctl.service", "user/rwkvctl.socket")


def directives(name: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text_of(name).splitlines() if not line.startswith("#"))
    return {key: value for key, equals, value in pairs if equals}


@pytest.mark.parametrize("name", UNITS)
def test_no_unit_of_ours_has_what_breaks_the_daemon(name: str) -> None:
    assert list(forbidden_in(text_of(name))) == []


def test_the_unit_says_of_each_forbidden_directive_what_it_breaks() -> None:
    comment = text_of("rwkvctl.service").partition("# Forbidden here")[2].partition("[Install]")[0]
    assert set(re.findall(r"(\w+)=", comment)) - {"DeviceAllow"} == set(FORBIDDEN) - {"DeviceAllow"}


@pytest.mark.parametrize(
    "line", [f"{name}=yes" for name in FORBIDDEN] + ["ProtectProc=invisible", " PrivateTmp = true"]
)
def test_a_directive_that_breaks_something_is_found(line: str) -> None:
    assert list(forbidden_in(f"[Service]\n#PrivateDevices=yes\n{line}\n")) == [line.partition("=")[0].strip()]


@pytest.mark.parametrize("line", ["PrivateTmp=no", "RestrictNamespaces=false", "#PrivateTmp=yes", "ProtectProc="])
def test_one_that_is_switched_off_is_not(line: str) -> None:
    assert list(forbidden_in(line)) == []


def test_the_daemon_alone_is_stopped_and_its_sockets_stay() -> None:
    service, socket = directives("rwkvctl.service"), directives("rwkvctl.socket")
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")
    assert (service["KillMode"], service["Delegate"], service["OOMPolicy"]) == ("process", "yes", "continue")
    assert service["RuntimeDirectoryPreserve"] == "yes"
    assert (service["User"], service["CapabilityBoundingSet"], service["NoNewPrivileges"]) == ("rwkvctl", "", "yes")
    assert (socket["SocketMode"], socket["SocketGroup"]) == ("0660", "rwkvctl")
    assert socket["ListenStream"] == str(config.SYSTEM_SOCKET)


@pytest.mark.parametrize("name", UNITS)
def test_a_systemd_gets_only_directives_that_it_knows(name: str) -> None:
    newer = [line for line in text_of(name).splitlines() if line.partition("=")[0] in units.NEWER]
    assert text_of(name, 252) == "".join(f"{line}\n" for line in text_of(name).splitlines() if line not in newer)
    assert text_of(name, 254) == text_of(name)
    assert bool(newer) == name.endswith(".service")


@pytest.mark.parametrize("name", [name for name in UNITS if name.endswith(".service")])
def test_what_is_started_is_this_installation(name: str) -> None:
    found = directives(name)
    assert found["ExecStart"] == f"{sys.executable} -P -m rwkv_daemon"
    assert found["ExecReload"] == f"{sys.executable} -P -m rwkvctl.cli reload"


def test_the_life_of_an_installed_file(tmp_path: Path) -> None:
    file = UnitFile(tmp_path / "a" / "x.service", signed("[Unit]\n"))
    assert state(file) == "absent"
    write(file)
    assert state(file) == "installed"
    assert file.path.stat().st_mode & 0o777 == 0o644
    newer = file._replace(text=signed("[Unit]\nDescription=newer\n"))
    assert state(newer) == "outdated"
    file.path.write_text(file.text + "Nice=5\n")
    assert state(file) == "edited"
    file.path.write_text("[Unit]\n")
    assert state(file) == "edited"
    assert list(tmp_path.rglob(".*")) == []


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=50))
def test_any_edit_is_seen(added: str) -> None:
    text = signed("[Unit]\n")
    mark = units.MARK.match(text + added)
    assert mark is not None
    assert (units.checksum((text + added)[mark.end() :]) == mark[1]) == (added == "")


def test_a_users_own_home_and_socket_are_in_the_units(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "RWKVCTL_HOME": str(tmp_path / "a b%c")}
    service, socket = units.user_files(config.load({}, environ), 254)
    assert service.path == tmp_path / ".config/systemd/user/rwkvctl.service"
    assert f'Environment="RWKVCTL_HOME={tmp_path}/a b%%c"' in service.text
    assert re.search(r"^ListenStream=.*\\x20b%%c.*daemon\.sock$", socket.text, re.MULTILINE)


def test_an_interpreter_that_others_cannot_reach_is_named(tmp_path: Path) -> None:
    python = tmp_path / "closed" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    (tmp_path / "closed").chmod(0o700)
    tops = [place for place in tmp_path.parents if not place.stat().st_mode & 0o001]
    assert unreachable(str(python)) == str(min([*tops, tmp_path / "closed"]))
    assert unreachable("/usr/bin/env") == ""
