"""Settings from every source, where each came from, and paths that fit into a Unix socket's address."""

import ast
import os
import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config
from rwkvctl.settings.config import Config
from rwkvctl.settings.fields import Settings

ROOT = Path(__file__).resolve().parents[4]
PACKAGES = ("rwkvctl", "daemon/rwkv_daemon", "engine/rwkv_engine", "kernels/rwkv_kernels", "data/rwkv_data",
            "weights/rwkv_weights")  # fmt: skip


@pytest.fixture
def system_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for /etc/rwkvctl/config.toml; no system service is installed."""
    monkeypatch.setattr(config, "SYSTEM_FILE", tmp_path / "etc.toml")
    monkeypatch.setattr(config, "SYSTEM_HOME", tmp_path / "no system service")
    return config.SYSTEM_FILE


@pytest.fixture
def environ(system_file: Path) -> dict[str, str]:
    """An operator's environment; no file is there yet."""
    assert not system_file.exists()
    return {"HOME": str(system_file.parent / "home"), "PATH": "/bin"}


def user_file(environ: dict[str, str], text: str = "") -> Path:
    path = config.user_file(environ)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def shown(found: Config, name: str) -> tuple[object, str]:
    (value,) = (value for value in found.values() if value.name == name)
    return value.value, value.origin


# -- precedence


def test_each_source_overrides_the_ones_before_it_and_is_named(system_file: Path, environ: dict[str, str]) -> None:
    environ |= {"RWKVCTL_ENGINE_SLOTS": "4", "RWKVCTL_SOCKET": "/run/env.sock", "RWKVCTL_NUMERICS": ""}
    system_file.write_text("engine_slots = 2\nmax_restarts = 2\nengine_threads = 2\n")
    mine = user_file(environ, 'engine_slots = 3\nengine_threads = 3\nsocket = "/run/user.sock"\n')
    found = config.load({"socket": "/run/flag.sock", "home": ""}, environ)
    assert shown(found, "numerics") == ("auto", "default")
    assert shown(found, "max_restarts") == (2, str(system_file))
    assert shown(found, "engine_threads") == (3, str(mine))
    assert shown(found, "engine_slots") == (4, "environment RWKVCTL_ENGINE_SLOTS")
    assert shown(found, "socket") == ("/run/flag.sock", "flag --socket")
    assert found.warnings == ()


def test_the_file_of_the_home_wins_over_the_users_and_loses_to_variables(
    environ: dict[str, str], tmp_path: Path
) -> None:
    own = tmp_path / "lab" / "config.toml"
    own.parent.mkdir()
    own.write_text("engine_slots = 5\nmax_restarts = 5\n[groups]\nnightly = 2\n", encoding="utf-8")
    mine = user_file(environ, "engine_slots = 3\nengine_threads = 3\n[groups]\nnightly = 1\n")
    environ |= {"RWKVCTL_HOME": str(own.parent), "RWKVCTL_MAX_RESTARTS": "7"}
    found = config.load({}, environ)
    assert shown(found, "engine_threads") == (3, str(mine))
    assert shown(found, "engine_slots") == (5, str(own))
    assert shown(found, "max_restarts") == (7, "environment RWKVCTL_MAX_RESTARTS")
    assert found.groups == {"nightly": 2}
    assert [path.name for path in config.files(environ)] == ["etc.toml", "config.toml", "config.toml"]
    assert config.looked_at(environ) == [f"{config.SYSTEM_FILE} (not there)", str(mine), str(own)]
    environ["RWKVCTL_HOME"] = "/no/such/home"
    assert config.load({}, environ).settings.engine_slots == 3


def test_a_pipe_or_a_device_in_the_place_of_env_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may have put it into a shared folder; root runs doctor there."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo(".env")
    assert config.of_rwkv_skills({}) == []
    (tmp_path / ".env").unlink()
    (tmp_path / ".env").symlink_to("/dev/zero")
    assert config.of_rwkv_skills({}) == []


def test_what_sets_up_rwkv_skills_is_found_and_not_read(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert config.of_rwkv_skills(environ) == []
    (tmp_path / ".env").write_text("OTHER=1\n", encoding="utf-8")
    assert config.of_rwkv_skills(environ) == []
    (tmp_path / ".env").write_text("# db\nexport PG_PASSWORD=hunter2\n", encoding="utf-8")
    environ |= {"PG_HOST": "db", "PGHOST": "no"}
    assert config.of_rwkv_skills(environ) == ["PG_HOST", str(tmp_path / ".env")]
    assert config.load({}, environ).settings == Settings()


def test_the_judge_and_the_endpoint_of_the_readme_are_some(environ: dict[str, str], tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[4] / "README.md").read_text(encoding="utf-8")
    example, endpoint = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    keys = tmp_path / "judge.keys"
    keys.write_text("k1\nk2\n", encoding="utf-8")
    keys.chmod(0o600)
    user_file(environ, example.replace("/etc/rwkvctl/judge.keys", str(keys)))
    found = config.judge_config("judge", environ)
    assert found is not None
    assert (found.model, found.budget_resets) == ("gpt-oss-120b", "daily")
    assert [one.label for one in found.endpoints] == ["judge.example", "own"]
    user_file(environ, example + endpoint)
    (model,) = config.endpoint_models(environ).values()
    assert (model.name, model.service.model, model.service.budget) == ("qwq", "QwQ-32B", 100.0)


def test_without_any_source_defaults_hold_and_paths_are_below_the_users_home(environ: dict[str, str]) -> None:
    found = config.load({}, environ)
    home = Path(environ["HOME"]) / ".local/share/rwkvctl"
    assert found.settings == Settings()
    assert {value.origin for value in found.values()} == {"default"}
    assert [value.name for value in found.values()] == [field.name for field in fields(Settings)]
    assert all(value.help for value in found.values())
    assert (found.home, found.data_dir, found.weights_dir) == (home, home / "data", home / "weights")
    assert (found.runs_dir, found.store) == (home / "runs", home / "store.sqlite")


def test_folders_of_their_own_are_kept(environ: dict[str, str]) -> None:
    environ |= {"RWKVCTL_WEIGHTS_DIR": "/w", "RWKVCTL_DATA_DIR": "/d", "XDG_DATA_HOME": "/x"}
    found = config.load({}, environ)
    assert (str(found.weights_dir), str(found.data_dir), str(found.home)) == ("/w", "/d", "/x/rwkvctl")


def test_the_users_file_follows_xdg(environ: dict[str, str], tmp_path: Path) -> None:
    environ["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    assert user_file(environ, "max_restarts = 9\n") == tmp_path / "xdg/rwkvctl/config.toml"
    assert config.load({}, environ).settings.max_restarts == 9


def test_the_system_services_home_is_used_where_it_may_be_written(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "SYSTEM_HOME", tmp_path)
    assert config.load({}, environ).home == tmp_path
    assert str(config.load({}, environ).socket) == "/run/rwkvctl/daemon.sock"
    assert config.load({"home": "/other"}, environ).home == Path("/other")


# -- what is refused


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("socks = 1\n", 1, "socks"),
        ('# one\nsocket = "/s"\n\n  sock = 1\n', 4, "sock"),
        ('socket = "/s"\n[engine]\nslots = 1\n', 2, "engine"),
        ('\n"engine.slots" = 1\n', 2, "engine.slots"),
        ("max_restarts = 1\nidle.unload = 3\n", 2, "idle"),
    ],
)
def test_an_unknown_key_is_refused_with_file_and_line(environ: dict[str, str], text: str, line: int, name: str) -> None:
    path = user_file(environ, text)
    with pytest.raises(ConfigError) as caught:
        config.load({}, environ)
    if "." not in name:
        assert str(caught.value).startswith(f"{path}:{line}: unknown setting '{name}'")
    assert f"unknown setting '{name}'" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        'engine_slots = "many"',
        "engine_slots = 1.5",
        "engine_slots = true",
        "engine_slots = -1",
        "idle_unload_s = nan",
        "idle_unload_s = inf",
        "idle_unload_s = -0.5",
        "idle_unload_s = true",
        "idle_unload_s = 2026-01-01",
        "idle_unload_s = []",
        'numerics = "fp16"',
        "home = 3",
        'home = ["/a"]',
        "socket = {}",
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_its_file_line_and_name(environ: dict[str, str], text: str) -> None:
    path = user_file(environ, text)
    with pytest.raises(ConfigError, match=f"{path}:1: {text.split(maxsplit=1)[0]} must "):
        config.load({}, environ)


def test_a_whole_number_is_a_duration_too(environ: dict[str, str]) -> None:
    user_file(environ, "idle_unload_s = 60")
    assert config.load({}, environ).settings.idle_unload_s == 60.0


@pytest.mark.parametrize(
    ("name", "text"),
    [("ENGINE_SLOTS", "two"), ("ENGINE_SLOTS", "1.5"), ("STOP_GRACE_S", "nan"), ("NUMERICS", "exact ")],
)
def test_a_wrong_value_in_the_environment_names_its_variable(environ: dict[str, str], name: str, text: str) -> None:
    environ[f"RWKVCTL_{name}"] = text
    with pytest.raises(ConfigError, match=f"environment RWKVCTL_{name}: {name.lower()} must "):
        config.load({}, environ)


@pytest.mark.parametrize("content", [b"engine_slots = ", b"[", b"home = \xff", b"\x00"])
def test_a_file_that_is_not_toml_is_refused_by_name(environ: dict[str, str], content: bytes) -> None:
    path = user_file(environ)
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"{path} is not valid TOML"):
        config.load({}, environ)


def test_a_file_that_cannot_be_read_is_refused_by_name(environ: dict[str, str]) -> None:
    config.user_file(environ).mkdir(parents=True)
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        config.load({}, environ)


def test_a_home_of_nobody_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="home: '~nobody-by-that-name/x'"):
        config.load({"home": "~nobody-by-that-name/x"}, environ)


# -- the environment


def test_an_unknown_variable_warns_and_markers_are_no_settings(environ: dict[str, str]) -> None:
    environ |= dict.fromkeys(config.MARKERS, "x") | {"RWKVCTL_ENGINE_SLOT": "4", "RWKVCTL_": "1", "RWKV": "1"}
    (empty, typo) = config.load({}, environ).warnings
    assert typo == "RWKVCTL_ENGINE_SLOT is set, but rwkvctl has no such setting; it has no effect"
    assert empty.startswith("RWKVCTL_ ")
    assert not {f"RWKVCTL_{field.name.upper()}" for field in fields(Settings)} & config.MARKERS
    assert config.marker("RWKVCTL_CRASH_AT", environ) == "x"
    assert config.marker("RWKVCTL_CRASH_AT", {}) == ""


def test_a_worker_inherits_neither_settings_nor_markers(environ: dict[str, str]) -> None:
    worker = config.base_environment(environ | {"RWKVCTL_HOME": "/h", "RWKVCTL_ATTEMPT": "u", "LANG": "C"})
    assert worker == environ | {"LANG": "C"}


def test_a_worker_inherits_what_it_needs_by_name_and_no_secret(environ: dict[str, str]) -> None:
    secrets = {"HF_TOKEN", "JUDGE_API_KEY", "OPENAI_API_KEY", "CREDENTIALS_DIRECTORY", "PGPASSWORD", "SSH_AUTH_SOCK"}
    needs = {"LC_ALL": "C", "CUDA_HOME": "/cuda", "TRITON_INTERPRET": "1", "PYTHONWARNINGS": "error", "HF_HOME": "/hf"}
    assert config.base_environment(environ | dict.fromkeys(secrets, "x") | needs) == environ | needs


def test_a_file_of_secrets_may_be_a_credential_of_the_service_manager(environ: dict[str, str]) -> None:
    passed = environ | {"CREDENTIALS_DIRECTORY": "/run/credentials/rwkvctl.service"}
    path = config.secret_file("credential:judge.keys", passed)
    assert path == Path("/run/credentials/rwkvctl.service/judge.keys")
    assert config.is_credential(path, passed)
    assert config.secret_file("/etc/keys", passed) == Path("/etc/keys")
    assert not config.is_credential(Path("/etc/keys"), passed)
    for text, variables in (("credential:judge.keys", environ), ("credential:../x", passed), ("credential:", passed)):
        with pytest.raises(ConfigError, match="LoadCredential="):
            config.secret_file(text, variables)


def test_no_other_module_reads_the_environment() -> None:
    """`os.environ` and its like, as attribute or import, anywhere but in rwkvctl/settings/config.py."""
    words = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}
    found = []
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if path == ROOT / "rwkvctl/settings/config.py":
            continue
        # a worker that forgets its environment does not read it
        text = path.read_text(encoding="utf-8").replace("os.environ.clear()", "pass")
        if not any(word in text for word in words):
            continue
        for part in ast.walk(ast.parse(text)):
            read = isinstance(part, ast.Attribute) and part.attr in words and ast.unparse(part.value) == "os"
            taken = isinstance(part, ast.ImportFrom) and part.module == "os" and words & {a.name for a in part.names}
            if read or taken:
                found.append(f"{path.relative_to(ROOT)}:{part.lineno}")
    assert not found


# -- sockets


def test_a_home_of_ones_own_keeps_its_socket_inside(environ: dict[str, str]) -> None:
    assert str(config.load({"home": "/srv/lab"}, environ).socket) == "/srv/lab/run/daemon.sock"


def test_the_services_home_has_the_units_socket_wherever_the_systems_file_puts_it(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, socket = tmp_path / "etc" / "config.toml", tmp_path / "run" / "daemon.sock"
    file.parent.mkdir()
    file.write_text('home = "/srv/lab"\n')
    monkeypatch.setattr(config, "SYSTEM_FILE", file)
    monkeypatch.setattr(config, "SYSTEM_SOCKET", socket)
    found = config.load({}, environ)
    assert (str(found.socket), found.folder) == ("/srv/lab/run/daemon.sock", file.parent), "no service is installed"
    socket.parent.mkdir()
    assert config.load({}, environ).socket == socket
    assert str(config.load({"home": "/srv/own"}, environ).socket) == "/srv/own/run/daemon.sock"


def test_temporary_folders_are_those_that_a_worker_looks_at(environ: dict[str, str]) -> None:
    assert config.temporary_folders(environ | {"TMPDIR": "/x", "TEMP": "/y"})[0] == Path("/x")
    assert [str(path) for path in config.temporary_folders(environ)] == ["/tmp", "/var/tmp", "/usr/tmp"]


def test_a_long_home_has_its_socket_in_the_runtime_directory_or_a_temporary_one(environ: dict[str, str]) -> None:
    homes = [f"/srv/{'x' * 90}{number}" for number in range(2)]
    environ["XDG_RUNTIME_DIR"] = "/run/user/7"
    sockets = [config.load({"home": home}, environ).socket for home in homes]
    assert sockets == [config.load({}, environ | {"RWKVCTL_HOME": home}).socket for home in homes]
    assert len({*sockets}) == 2, "each home has its own"
    assert {str(socket.parents[1]) for socket in sockets} == {"/run/user/7"}
    environ |= {"XDG_RUNTIME_DIR": "/run/" + "y" * 90, "TMPDIR": "/var/tmp"}
    assert str(config.load({"home": homes[0]}, environ).socket.parents[1]) == "/var/tmp"
    environ["TMPDIR"] = "/var/" + "z" * 90
    assert str(config.load({"home": homes[0]}, environ).socket.parents[1]) == "/tmp"


def test_a_given_socket_is_taken_as_it_is_or_refused_when_no_socket_can_have_that_name(environ: dict[str, str]) -> None:
    longest = "/" + "s" * 106
    assert str(config.load({"socket": longest}, environ).socket) == longest
    with pytest.raises(ConfigError, match="longer than the 107 bytes"):
        config.load({"socket": f"{longest}s"}, environ)


FOLDERS = st.lists(
    st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=60), min_size=1, max_size=6
).map(lambda parts: "/" + "/".join(parts))
NATIVE = FOLDERS.filter(lambda path: all(not 0xD800 <= ord(c) < 0xDC80 and not 0xDD00 <= ord(c) < 0xE000 for c in path))


@given(NATIVE, st.none() | NATIVE, st.none() | NATIVE, st.booleans())
def test_a_derived_socket_path_never_takes_more_than_100_bytes(
    home: str, runtime: str | None, temporary: str | None, own: bool
) -> None:
    environ = {"HOME": home} | ({"RWKVCTL_HOME": home} if own else {})
    environ |= {"XDG_RUNTIME_DIR": runtime} if runtime else {}
    environ |= {"TMPDIR": temporary} if temporary else {}
    settings = Settings(home=home if own else "")
    socket = config.socket_of(settings, config.home_of(settings, environ), environ, systems=False)
    assert socket.is_absolute()
    assert len(os.fsencode(socket)) <= config.LONGEST_SOCKET
