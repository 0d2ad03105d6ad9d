"""Where the store is: the home's file, a URL, or a private file that holds one."""

from pathlib import Path

import pytest

from rwkv_daemon.store import StoreDamagedError, open_store
from rwkv_daemon.store.location import daemon_name, place_of, store_place
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "store.url"
    file.write_text("postgresql://me:hunter2@db/x\n")
    file.chmod(0o600)
    return file


def test_without_the_setting_it_is_the_homes_own_file(tmp_path: Path) -> None:
    assert store_place(config.load({"home": str(tmp_path)}, {"HOME": "/"})) == tmp_path / "store.sqlite"


def test_a_private_file_gives_the_url_with_its_password(tmp_path: Path, secret: Path) -> None:
    settings = config.load({"home": str(tmp_path)}, {"HOME": "/", "RWKVCTL_STORE": str(secret)})
    assert store_place(settings) == "postgresql://me:hunter2@db/x"
    assert "hunter2" not in repr(settings)


def test_a_file_that_everybody_reads_or_that_holds_something_else_is_refused(secret: Path) -> None:
    secret.chmod(0o644)
    with pytest.raises(ConfigError, match="can be read or written by everybody"):
        place_of(str(secret))
    secret.chmod(0o600)
    secret.write_text("hunter2")
    with pytest.raises(ConfigError, match="holds no URL") as refused:
        place_of(str(secret))
    assert "hunter2" not in str(refused.value)
    with pytest.raises(ConfigError, match="cannot be read"):
        place_of(str(secret.with_name("nothing")))


def test_daemons_of_other_homes_have_other_names(tmp_path: Path) -> None:
    names = {daemon_name(config.load({"home": str(tmp_path / name)}, {"HOME": "/"})) for name in "ab"}
    assert len(names) == 2
    assert all(len(name) < 64 for name in names), "PostgreSQL cuts longer ones"


@pytest.mark.parametrize("sign", list("/#?"))
def test_a_password_that_would_be_taken_for_a_host_is_refused_and_not_repeated(secret: Path, sign: str) -> None:
    secret.write_text(f"postgresql://me:hunter2{sign}x@db/x")
    with pytest.raises(ConfigError, match="write `/` as %2F") as refused:
        place_of(str(secret))
    assert "hunter2" not in str(refused.value)


async def test_a_url_that_the_driver_does_not_understand_is_not_repeated() -> None:
    with pytest.raises(StoreDamagedError, match="URL cannot be understood") as refused:
        await open_store("postgresql://me:hunter2@db:hunter3/x")
    assert "hunter2" not in str(refused.value)
