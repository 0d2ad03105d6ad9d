"""Holds the unit suite to its rule: no network, no process, no file outside `tmp_path`."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from no_io import forbidden

from rwkvctl.settings import config


@pytest.fixture(scope="session")
def own_folders(tmp_path_factory: pytest.TempPathFactory, own_temporary_folder: None) -> tuple[Path, Path]:
    """Where every `tmp_path` lies, and the process's own folder of files without a name."""
    return tmp_path_factory.getbasetemp(), Path(tempfile.gettempdir())


@pytest.fixture(autouse=True)
def no_io(own_folders: tuple[Path, Path]) -> Iterator[None]:
    """No input and no output while a unit test and the fixtures of its own run."""
    with forbidden(*own_folders):
        yield


@pytest.fixture(autouse=True)
def no_configuration_of_the_machine(own_folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "SYSTEM_FILE", own_folders[0] / "no-such-file.toml")
