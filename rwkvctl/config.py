"""Configuration, read once: defaults < /etc/rwkvctl/config.toml < user file < RWKVCTL_* environment < flags.

This is the only module that reads the environment. Every other one gets values. Each value keeps where it came from,
for `rwkvctl config show`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.protocol.numerics import NUMERICS

if TYPE_CHECKING:
    from rwkvctl.judge_config import JudgeConfig

MARKERS: Final = frozenset({"RWKVCTL_ATTEMPT", "RWKVCTL_CRASH_AT", "RWKVCTL_TEST_DATA"})
"""Variables with our prefix that are no settings: a worker's identity, and two switches of the tests."""

TABLES: Final = frozenset({"judge", "checker"})
"""Tables of the file with settings of their own: `rwkvctl.judge_config`."""

SYSTEM_FILE: Final = Path("/etc/rwkvctl/config.toml")
SYSTEM_HOME: Final = Path("/var/lib/rwkvctl")
LONGEST_SOCKET: Final = 100
"""Bytes a derived socket path may take: AF_UNIX ends at 107, and engines put theirs beside the daemon's."""
LONGEST_GIVEN_SOCKET: Final = 107


def setting(default: Any, help_text: str) -> Any:
    """A dataclass field with the sentence `config show` prints beside it."""
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values an operator can set. Units are in the names; an empty path means: derived from `home`."""

    home: str = setting("", "where data, weights, runs and the store lie")
    socket: str = setting("", "the daemon's Unix socket")
    weights_dir: str = setting("", "where checkpoints lie")
    data_dir: str = setting("", "where prepared rows lie")
    idle_unload_s: float = setting(600.0, "an engine without work is unloaded after this time")
    engine_start_timeout_s: float = setting(600.0, "an engine that is not ready by then is stopped")
    engine_hang_s: float = setting(120.0, "an engine whose step counter stands still for so long is killed")
    engine_slots: int = setting(0, "sequences an engine runs at once; 0: the engine decides")
    engine_threads: int = setting(0, "threads of an engine on the CPU; 0: all cores but one")
    numerics: str = setting("auto", "auto (fp32, as engines run on the CPU), or a profile: " + ", ".join(NUMERICS))
    runners_per_engine: int = setting(4, "jobs that may feed one engine at the same time")
    max_restarts: int = setting(3, "starts again of a runner or engine before its job fails")
    restart_backoff_s: float = setting(1.0, "wait before the first restart; doubles each time")
    stop_grace_s: float = setting(30.0, "time a worker has to stop when asked, before SIGTERM")
    stop_term_s: float = setting(20.0, "time a worker has after SIGTERM, before SIGKILL")
    min_free_disk_bytes: int = setting(256 * 1024 * 1024, "below this, no job is started")
    grading_slots: int = setting(0, "programs that graders may run at once on this node; 0: one a core")
    run_untrusted_code_unsandboxed: bool = setting(
        False, "run what models write without isolation where the sandbox does not work; scores record it"
    )
    sampler_deadline_s: float = setting(5.0, "a GPU sampler that is silent for longer counts as hung")


@dataclass(frozen=True, slots=True)
class Value:
    """One setting as it is in force, where it came from, and what it means."""

    name: str
    value: object
    origin: str
    help: str


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in force and the paths they lead to."""

    settings: Settings
    origins: dict[str, str]
    warnings: tuple[str, ...]
    home: Path
    socket: Path
    folder: Path

    @property
    def benchmarks_dir(self) -> Path:
        """Benchmarks of the operator's own, one file each."""
        return self.folder / "benchmarks"

    @property
    def overrides_file(self) -> Path:
        """Standing settings of benchmarks."""
        return self.folder / "benchmarks.toml"

    @property
    def slots_dir(self) -> Path:
        """Where graders take their turns."""
        return self.home / "cache" / "slots"

    @property
    def weights_dir(self) -> Path:
        return Path(self.settings.weights_dir) if self.settings.weights_dir else self.home / "weights"

    @property
    def data_dir(self) -> Path:
        return Path(self.settings.data_dir) if self.settings.data_dir else self.home / "data"

    @property
    def runs_dir(self) -> Path:
        return self.home / "runs"

    @property
    def store(self) -> Path:
        return self.home / "store.sqlite"

    def values(self) -> list[Value]:
        """Every setting in order of declaration, derived paths filled in."""
        derived = {
            "home": str(self.home),
            "socket": str(self.socket),
            "weights_dir": str(self.weights_dir),
            "data_dir": str(self.data_dir),
        }
        return [
            Value(
                f.name,
                derived.get(f.name, getattr(self.settings, f.name)),
                self.origins.get(f.name, "default"),
                f.metadata["help"],
            )
            for f in fields(Settings)
        ]


def load(flags: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None) -> Config:
    """Read every source once. Raises ConfigError naming the file or variable that is wrong."""
    environ = os.environ if environ is None else environ
    given = {f"flag --{name.replace('_', '-')}": {name: value} for name, value in (flags or {}).items() if value}
    sources: dict[str, dict[str, object]] = {}
    for path in (SYSTEM_FILE, user_file(environ)):
        sources[str(path)] = {name: value for name, value in read_file(path).items() if name not in TABLES}
    sources |= {f"environment {name}": {key: text} for name, key, text in environment_settings(environ)}
    sources |= given
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, pairs in sources.items():
        for name, raw in pairs.items():
            values[name] = convert(name, raw, origin)
            origins[name] = origin
    settings = Settings(**values)
    home = home_of(settings, environ)
    socket, folder = socket_of(settings, home, environ), config_folder(home, environ)
    return Config(settings, origins, unknown_variables(environ), home, socket, folder)


def config_folder(home: Path, environ: Mapping[str, str]) -> Path:
    """Where the operator's benchmarks and their settings lie: beside the configuration file in force for this home."""
    return SYSTEM_FILE.parent if home == SYSTEM_HOME else user_file(environ).parent


def judge_config(section: str, environ: Mapping[str, str] | None = None) -> "JudgeConfig | None":
    """The settings of the [judge] or the [checker], from the last file that has the table, and the variables that
    rwkv-skills reads; None if neither says anything. Raises ConfigError."""
    from rwkvctl import judge_config as settings  # only the daemon needs it

    environ = os.environ if environ is None else environ
    table, origin = None, "environment"
    for path in (SYSTEM_FILE, user_file(environ)):
        found = read_file(path).get(section)
        if isinstance(found, dict):
            table, origin = found, str(path)
    return settings.load(table, environ, section=section, origin=origin)


def user_file(environ: Mapping[str, str]) -> Path:
    """`$XDG_CONFIG_HOME/rwkvctl/config.toml`, or below ~/.config."""
    base = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '/')}/.config"
    return Path(base) / "rwkvctl" / "config.toml"


def read_file(path: Path) -> dict[str, object]:
    """The settings in one TOML file; none if there is no such file. Raises ConfigError with file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: byte {error.start} is not UTF-8.") from error
    import tomllib  # a third of the CLI's start-up, and most machines have no file

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error
    known = {f.name for f in fields(Settings)} | TABLES
    for name in table:
        if name not in known:
            raise ConfigError(f"{path}:{line_of(text, name)}: unknown setting '{name}'; see `rwkvctl config show`.")
    return table


def line_of(text: str, name: str) -> int:
    """The line on which a key is set (1 if it cannot be found)."""
    for number, line in enumerate(text.splitlines(), 1):
        key = line.partition("=")[0].strip("[] \t").partition(".")[0]
        if key.strip("\"' \t") == name:
            return number
    return 1


def environment_settings(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(variable, setting, text) for every RWKVCTL_* variable that names a setting."""
    found = []
    for f in fields(Settings):
        variable = f"RWKVCTL_{f.name.upper()}"
        if environ.get(variable):
            found.append((variable, f.name, environ[variable]))
    return found


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """One warning for each RWKVCTL_* variable that is neither a setting nor a marker."""
    known = {f"RWKVCTL_{f.name.upper()}" for f in fields(Settings)} | MARKERS
    unknown = sorted(name for name in environ if name.startswith("RWKVCTL_") and name not in known)
    return tuple(f"{name} is set but is no setting of rwkvctl; it has no effect" for name in unknown)


def convert(name: str, raw: object, origin: str) -> object:
    """A value from a file, variable or flag as the setting's own type."""
    wanted = type(getattr(Settings(), name))
    fits = type(raw) in {str, wanted} or (wanted is float and type(raw) is int)
    if wanted is bool and type(raw) is str:
        raw = {"true": True, "1": True, "false": False, "0": False}.get(raw.lower(), raw)
        fits = type(raw) is bool
    try:
        value = wanted(raw) if fits else None
    except ValueError:
        value = None
    if value is None:
        raise ConfigError(f"{origin}: {name} must be {wanted.__name__}, not {raw!r}.")
    if name == "numerics" and value not in {"auto", *NUMERICS}:
        raise ConfigError(f"{origin}: numerics must be auto or one of {', '.join(NUMERICS)}, not {raw!r}.")
    if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
        raise ConfigError(f"{origin}: {name} must be a finite number and not negative, is {raw!r}.")
    return value


def home_of(settings: Settings, environ: Mapping[str, str]) -> Path:
    """RWKVCTL_HOME (or file, or flag), else the system service's home when we may use it, else XDG."""
    if settings.home:
        return absolute("home", settings.home)
    if SYSTEM_HOME.is_dir() and os.access(SYSTEM_HOME, os.W_OK):
        return SYSTEM_HOME
    base = environ.get("XDG_DATA_HOME") or f"{environ.get('HOME', '/')}/.local/share"
    return Path(base) / "rwkvctl"


def absolute(name: str, text: str) -> Path:
    """A path of the settings with `~` filled in. Raises ConfigError for a `~USER` nobody knows."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise ConfigError(f"{name}: {text!r} names a home directory that does not exist.") from error


def socket_of(settings: Settings, home: Path, environ: Mapping[str, str]) -> Path:
    """The socket named in the settings, else a short path that belongs to this home alone.

    AF_UNIX paths end at 108 bytes. A home of one's own (RWKVCTL_HOME) keeps its socket inside when that is short
    enough; else it goes to the runtime directory, or a private folder of the temporary one, by the home's hash.
    """
    if settings.socket:
        given = absolute("socket", settings.socket)
        if len(os.fsencode(given)) > LONGEST_GIVEN_SOCKET:
            raise ConfigError(
                f"socket: {given} is longer than the {LONGEST_GIVEN_SOCKET} bytes a Unix socket may have."
            )
        return given
    if home == SYSTEM_HOME:
        return Path("/run/rwkvctl/daemon.sock")
    folders = [home / "run"] if settings.home else []
    for folder in folders + runtime_dirs(home, environ):
        if len(os.fsencode(folder / "daemon.sock")) <= LONGEST_SOCKET:
            return folder / "daemon.sock"
    raise AssertionError("the last folder is short")


def runtime_dirs(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Private directories for the sockets of this home alone, best first; the last one is always short."""
    name = "rwkvctl"
    if home != Path(f"{environ.get('HOME', '/')}/.local/share/rwkvctl"):
        from hashlib import sha256  # start-up time that most calls need not pay

        name = f"rwkvctl-{sha256(os.fsencode(home)).hexdigest()[:8]}"
    runtime, temporary = environ.get("XDG_RUNTIME_DIR", ""), environ.get("TMPDIR", "")
    folders = [Path(runtime) / name] if runtime.startswith("/") else []
    folders += [Path(temporary) / f"{name}-{os.getuid()}"] if temporary.startswith("/") else []
    return [*folders, Path(f"/tmp/{name}-{os.getuid()}")]  # noqa: S108 - made with mode 0700


def folders_of(variable: str, environ: Mapping[str, str] | None = None) -> list[Path]:
    """The folders of a search path that another program's users set (NLTK_DATA)."""
    text = (os.environ if environ is None else environ).get(variable, "")
    return [Path(folder) for folder in text.split(os.pathsep) if folder]


def marker(name: str, environ: Mapping[str, str] | None = None) -> str:
    """The value of one of the MARKERS, empty if it is not set."""
    assert name in MARKERS, name
    return (os.environ if environ is None else environ).get(name, "")


def base_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment a worker starts from: ours without settings and markers, which it gets as files and flags."""
    environ = os.environ if environ is None else environ
    return {name: text for name, text in environ.items() if not name.startswith("RWKVCTL_")}
