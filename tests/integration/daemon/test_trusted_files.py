"""A configuration that others may write to is theirs: it names commands, and its folder holds code that is imported."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rwkv_daemon.host import config_ownership, socket_folder
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user's configuration."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "rwkvctl"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "config.toml").write_text("")
    (folder / "benchmarks" / "mine.py").write_text("")
    return folder


@pytest.mark.parametrize("name", ["", "config.toml", "benchmarks", "benchmarks/mine.py"])
def test_what_everybody_may_write_to_is_refused(place: Path, tmp_path: Path, name: str) -> None:
    settings = config.load({"home": str(tmp_path)})
    assert config_ownership.check(settings) == ()
    (place / name).chmod(0o777)
    with pytest.raises(ConfigError, match=r"written by everybody.*chmod o-w"):
        config_ownership.check(settings)


def test_a_home_of_everybody_is_refused_unless_names_in_it_are_safe(place: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o1777)
    assert config_ownership.check(config.load({"home": str(home)})) == ()
    home.chmod(0o777)
    with pytest.raises(ConfigError, match="written by everybody"):
        config_ownership.check(config.load({"home": str(home)}))


def test_what_another_user_owns_is_named(place: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: a file of another user")
    os.chown(place / "config.toml", 65533, 65533)
    (said,) = config_ownership.check(config.load({"home": str(tmp_path)}))
    assert "config.toml belongs to user 65533" in said


def test_the_daemon_runs_no_code_of_everybody(new_node: Callable[..., Any], place: Path, tmp_path: Path) -> None:
    node = new_node()
    (place / "benchmarks" / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (place / "benchmarks" / "mine.py").chmod(0o666)
    done = node.refused_start()
    assert done.returncode == 2, done.stderr
    assert "mine.py can be written by everybody" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_link_that_somebody_planted_in_place_of_the_sockets_folder_is_refused(tmp_path: Path) -> None:
    """It leads to a folder of ours, until they turn it."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a link of another user")
    (tmp_path / "ours").mkdir(mode=0o700)
    (tmp_path / "run").symlink_to(tmp_path / "ours")
    settings = config.load({"home": str(tmp_path), "socket": str(tmp_path / "run" / "daemon.sock")})
    socket_folder.make_folder(settings)
    os.chown(tmp_path / "run", 65533, 65533, follow_symlinks=False)
    with pytest.raises(ConfigError, match="belongs to another user"):
        socket_folder.make_folder(settings)
