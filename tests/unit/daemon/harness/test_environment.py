"""The environment of a run: the contract, the manifest, and nothing else."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness_folders import MANIFEST

from rwkv_daemon.harness import environment, manifest
from rwkv_daemon.harness.environment import Asked, Places

CONTRACT = {
    "PATH", "HOME", "TMPDIR", "LANG", "VIRTUAL_ENV", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
    "RWKVCTL_ATTEMPT", "RWKVCTL_RUN_ID", "RWKVCTL_MODEL", "RWKVCTL_MODEL_SHA256", "RWKVCTL_BASE_URL",
    "RWKVCTL_API_KEY", "RWKVCTL_TASKS", "RWKVCTL_MAX_TOKENS", "RWKVCTL_SEED", "RWKVCTL_OUT", "RWKVCTL_CACHE",
    "BENCHMARK_DATASETS", "MODEL_ABBR", "BASE_MODEL", "MAX_OUT_LEN", "BATCH_SIZE", "NUM_GPUS",
}  # fmt: skip
MINE = manifest.parse(MANIFEST)
ASKED = Asked(
    run="j1-2", model="m", weights_path="/w/m.pth", weights_sha256="ab", tasks="gsm8k", seed=7, max_tokens=99,
    base_url="http://127.0.0.1:8000/v1", api_key="token", served_as="served",
)  # fmt: skip


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(out=tmp_path / "h" / "out", cache=tmp_path / "cache", venv=tmp_path / "venv", own=tmp_path / "own")


@pytest.fixture
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_run_has_the_names_of_the_contract_and_of_its_manifest_alone(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "RWKVCTL_STORE", "LD_PRELOAD", "PYTHONPATH", "https_proxy"):
        monkeypatch.setenv(name, "the operator's secret")
    monkeypatch.setenv("HOME", "/the operator's secret")
    monkeypatch.setenv("PATH", "/the operator's secret")
    found = environment.of_run(ASKED, places, MINE)
    assert found.keys() == CONTRACT | {"MY_KEY", "MY_CACHE"}
    assert not [name for name, value in found.items() if "secret" in value]


def test_what_the_contract_says(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RWKVCTL_ATTEMPT", "home j1-2")
    found = environment.of_run(ASKED, places, MINE)
    assert found["RWKVCTL_ATTEMPT"] == "home j1-2"
    assert (found["RWKVCTL_API_KEY"], found["MY_KEY"]) == ("token", "key token")
    assert found["MY_CACHE"] == f"{places.cache}/x"
    assert (found["BENCHMARK_DATASETS"], found["RWKVCTL_SEED"], found["MAX_OUT_LEN"]) == ("gsm8k", "7", "99")
    assert found["PATH"].startswith(f"{places.venv}/bin:")
    assert found["HOME"] == str(places.out / "home")


def test_each_placeholder_has_a_value(places: Places) -> None:
    assert environment.values(ASKED, places, MINE).keys() == manifest.IN_ENVIRONMENT


@pytest.mark.usefixtures("usual_mask")
def test_the_folders_of_a_run_are_its_users_alone_and_new(places: Places) -> None:
    environment.made(places)
    assert {path.name for path in places.out.iterdir()} == {"home", "tmp"}
    assert places.out.stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileExistsError):
        environment.made(places)


@pytest.mark.usefixtures("usual_mask")
def test_the_token_lies_in_a_netrc_that_only_its_user_reads(places: Places) -> None:
    environment.made(places)
    environment.write_netrc(places, "token")
    file = places.out / "home" / ".netrc"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == "machine 127.0.0.1 login run password token\n"
