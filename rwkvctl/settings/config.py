"""Configuration, read once: defaults < /etc/rwkvctl/config.toml < user file < $RWKVCTL_HOME/config.toml < RWKVCTL_*
environment < flags.

This is the only module that reads the environment. Every other one gets values. Each value keeps where it came from,
for `rwkvctl config show`.
"""

import os
import stat
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import worker_environment
from rwkvctl.settings.fields import Settings, convert, line_of

if TYPE_CHECKING:
    from rwkvctl.settings.endpoints import EndpointModel
    from rwkvctl.settings.judge import JudgeConfig

MARKERS: Final = frozenset({"RWKVCTL_ATTEMPT", "RWKVCTL_CRASH_AT", "RWKVCTL_TEST_DATA", "RWKVCTL_TEST_DEVICE",
                             "RWKVCTL_TEST_DEV", "RWKVCTL_TEST_NAMESPACE", "RWKVCTL_TUI_DIFF"})  # fmt: skip
"""Variables with our prefix that are no settings: a worker's identity, and switches of the tests."""

TABLES: Final = frozenset({"judge", "checker", "endpoints", "writer", "groups", "notify", "roles"})
"""Tables of the file with settings of their own, such as `rwkvctl.settings.judge`."""

SYSTEM_FILE: Final = Path("/etc/rwkvctl/config.toml")
SYSTEM_HOME: Final = Path("/var/lib/rwkvctl")
SYSTEM_SOCKET: Final = Path("/run/rwkvctl/daemon.sock")
"""Users who may write to it operate the system's service, whose home only the service itself can enter."""
LONGEST_SOCKET: Final = 100
"""Bytes a derived socket path may have: AF_UNIX ends at 107, and engines put theirs beside the daemon's."""
LONGEST_GIVEN_SOCKET: Final = 107
LONGEST_FOREIGN: Final = 64 * 1024
"""Bytes that are read of a file which another user may have put there."""


SERVICE_VARIABLES: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS",
                            "LISTEN_FDNAMES", "JOURNAL_STREAM")  # fmt: skip
"""What a service manager tells the process that it starts, and none of its children."""


@dataclass(frozen=True, slots=True)
class SettingValue:
    """One setting as it is in force, where it was set, and its help."""

    name: str
    value: object
    origin: str
    help: str


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in force and the paths derived from them."""

    settings: Settings
    origins: dict[str, str]
    """Where each setting was set: a file, a variable or a flag."""

    warnings: tuple[str, ...]
    home: Path
    socket: Path
    folder: Path
    """The folder of the operator's benchmarks and their settings."""

    flags: Mapping[str, object] = field(default_factory=dict)
    """The flags that were given, which a reload uses again."""

    groups: Mapping[str, int] = field(default_factory=dict)
    """How many jobs of a group may run at once."""

    @property
    def is_remote(self) -> bool:
        """Whether the daemon is on another machine; `socket` is https://HOST:PORT then."""
        return self.settings.socket.startswith("https://")

    @property
    def benchmarks_dir(self) -> Path:
        """Return the folder of the operator's own benchmarks, one file each."""
        return self.folder / "benchmarks"

    @property
    def harnesses_dir(self) -> Path:
        """Return the folder of the operator's own harnesses, a manifest each, and of own tasks for harnesses."""
        return self.folder / "harnesses"

    @property
    def harness_installations(self) -> Path:
        """Return the folder in which harnesses are installed."""
        return self.home / "harnesses"

    @property
    def overrides_file(self) -> Path:
        """Return the file with the operator's settings of single benchmarks, which every dispatch uses."""
        return self.folder / "benchmarks.toml"

    @property
    def slots_dir(self) -> Path:
        """Return the folder of the files with which graders limit running programs on the whole node."""
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
    def daemon_lock(self) -> Path:
        """Lock file that the daemon of this home holds while it lives; its workers test it."""
        return self.home / "daemon.lock"

    @property
    def store(self) -> Path:
        return self.home / "store.sqlite"

    def values(self) -> list[SettingValue]:
        """Return every setting in order of declaration, derived paths filled in."""
        derived = {
            "home": str(self.home),
            "socket": str(self.socket),
            "weights_dir": str(self.weights_dir),
            "data_dir": str(self.data_dir),
            "store": self.settings.store or str(self.store),
        }
        return [
            SettingValue(
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
    for path in files(environ):
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
    systems = home == SYSTEM_HOME or origins.get("home") == str(SYSTEM_FILE)
    socket, folder = socket_of(settings, home, environ, systems=systems), config_folder(environ, systems=systems)
    return Config(
        settings, origins, unknown_variables(environ), home, socket, folder, dict(flags or {}), groups(environ)
    )


def quiet_hub() -> None:
    """Stop the Hugging Face client from sending its hub anything but fetches (no telemetry, no list of agents), unless
    HF_HUB_DISABLE_TELEMETRY says otherwise. Call it before the client is imported, which reads the variable once."""
    library_defaults({"HF_HUB_DISABLE_TELEMETRY": "1"})


def library_defaults(values: Mapping[str, str]) -> None:
    """Set variables that a library reads when it is imported or started, unless the operator has set them."""
    for name, value in values.items():
        os.environ.setdefault(name, value)


@contextmanager
def library_variable(name: str, value: str) -> Iterator[None]:
    """Set one variable that a library reads while it is imported, and put back what was there."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name) if before is None else os.environ.update({name: before})


def groups(environ: Mapping[str, str]) -> dict[str, int]:
    """Return how many jobs of each group may run at once: the table [groups]. Raises ConfigError with file and line."""
    found: dict[str, int] = {}
    for path in files(environ):
        table = read_file(path).get("groups", {})
        for name, limit in table.items() if isinstance(table, dict) else [("groups", table)]:
            if type(limit) is not int or limit < 1:
                line = line_of(path.read_text(encoding="utf-8"), name)
                raise ConfigError(f"{path}:{line}: group {name} takes a whole number of jobs, at least 1: {limit!r}.")
            found[name] = limit
    return found


def config_folder(environ: Mapping[str, str], *, systems: bool) -> Path:
    """Return the folder of the operator's benchmarks and their settings: that of the configuration file in force for
    this home, the system service's or the user's."""
    return SYSTEM_FILE.parent if systems else user_file(environ).parent


def judge_config(section: str, environ: Mapping[str, str] | None = None) -> "JudgeConfig | None":
    """Return the settings of the [judge] or the [checker], from the last file that has the table, and the variables of
    rwkv-skills; None if there are none. Raises ConfigError."""
    from rwkvctl.settings import judge  # imported here, as only the daemon needs it

    environ = os.environ if environ is None else environ
    found, origin = table(section, environ)
    return judge.load(found if isinstance(found, dict) else None, environ, section=section, origin=origin)


def endpoint_models(environ: Mapping[str, str] | None = None) -> "dict[str, EndpointModel]":
    """Return the models behind endpoints by name, the writer among them, from the last file that has the table
    [endpoints] or [writer]. Raises ConfigError."""
    from rwkvctl.settings import endpoints  # imported here, as only the daemon needs it

    found, origin = table("endpoints", environ)
    models = endpoints.parse(found, origin) if found is not None else {}
    found, origin = table("writer", environ)
    writer = [endpoints.parse_writer(found, origin)] if found is not None else []
    return models | {one.name: one for one in writer}


def table(name: str, environ: Mapping[str, str] | None = None) -> tuple[object, str]:
    """Return one of the TABLES from the last file that has it, and where it begins there (`FILE:LINE`); (None,
    `environment`) if no file has it. Raises ConfigError."""
    environ = os.environ if environ is None else environ
    found: object = None
    origin = "environment"
    for path in files(environ):
        if (here := read_file(path).get(name)) is not None:
            found, origin = here, f"{path}:{line_of(path.read_text(encoding='utf-8'), name)}"
    return found, origin


def user_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the user's configuration file: below $XDG_CONFIG_HOME if that is set, else below ~/.config."""
    base = environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '/')}/.config"
    return Path(base) / "rwkvctl" / "config.toml"


def files(environ: Mapping[str, str] | None = None) -> tuple[Path, ...]:
    """Return the files that are read, in order of increasing precedence; they need not exist."""
    environ = os.environ if environ is None else environ
    home = environ.get("RWKVCTL_HOME", "")
    own = [absolute("RWKVCTL_HOME", home) / "config.toml"] if home else []
    return tuple(dict.fromkeys([SYSTEM_FILE, user_file(environ), *own]))


def looked_at(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the files that are read, each with whether it exists, for the operator."""
    return [f"{path}{'' if os.path.exists(path) else ' (not there)'}" for path in files(environ)]  # noqa: PTH110 - a folder that may not be entered holds nothing for us


def of_rwkv_skills(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return settings of rwkv-skills that this program does not read: its variables PG_*, and a file .env with such
    variables in the working folder."""
    found = sorted(name for name in (os.environ if environ is None else environ) if name.startswith("PG_"))
    lines = text_of_some(Path(".env")).split("\n")
    names = (line.strip().removeprefix("export ").partition("=")[0].strip() for line in lines)
    return [*found, *([str(Path(".env").absolute())] if any(name.startswith("PG_") for name in names) else [])]


def text_of_some(path: Path) -> str:
    """Return the beginning of a plain file that anybody may have put there; a pipe or a device is not opened."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return ""
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(LONGEST_FOREIGN).decode(errors="replace") if plain else ""
    except OSError:
        return ""


def read_file(path: Path) -> dict[str, object]:
    """Return the settings in one TOML file; none if there is no such file. Raises ConfigError with file and line."""
    if not os.path.exists(path):  # noqa: PTH110 - false, too, for the file of a home that we may not enter
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
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


def environment_settings(environ: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return (variable, setting, text) for every RWKVCTL_* variable that names a setting."""
    found = []
    for f in fields(Settings):
        variable = f"RWKVCTL_{f.name.upper()}"
        if environ.get(variable):
            found.append((variable, f.name, environ[variable]))
    return found


def unknown_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return one warning for each RWKVCTL_* variable that is neither a setting nor a marker."""
    known = {f"RWKVCTL_{f.name.upper()}" for f in fields(Settings)} | MARKERS
    unknown = sorted(name for name in environ if name.startswith("RWKVCTL_") and name not in known)
    return tuple(f"{name} is set, but rwkvctl has no such setting; it has no effect" for name in unknown)


def home_of(settings: Settings, environ: Mapping[str, str]) -> Path:
    """Return RWKVCTL_HOME (or file, or flag), else the system service's home if we may use it, else the XDG folder."""
    if settings.home:
        return absolute("home", settings.home)
    if os.access(SYSTEM_SOCKET, os.W_OK) or (SYSTEM_HOME.is_dir() and os.access(SYSTEM_HOME, os.W_OK)):
        return SYSTEM_HOME
    base = environ.get("XDG_DATA_HOME") or f"{environ.get('HOME', '/')}/.local/share"
    return Path(base) / "rwkvctl"


def absolute(name: str, text: str) -> Path:
    """Return a path of the settings with `~` expanded. Raises ConfigError for an unknown `~USER`."""
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise ConfigError(f"{name}: {text!r} names a home directory that does not exist.") from error


def socket_of(settings: Settings, home: Path, environ: Mapping[str, str], *, systems: bool) -> Path:
    """Return the socket of the settings, else a short path that belongs to this home alone.

    AF_UNIX paths end at 108 bytes. The home of the system's service (`systems`), wherever the system's configuration
    puts it, has the socket of the unit, once that is installed. A home of one's own (RWKVCTL_HOME) has its socket
    inside if that is short enough; else it is in the runtime directory, or a private folder of the temporary one, named
    by the home's hash.
    """
    if settings.socket and not settings.socket.startswith("https://"):
        given = absolute("socket", settings.socket)
        if len(os.fsencode(given)) > LONGEST_GIVEN_SOCKET:
            raise ConfigError(
                f"socket: {given} is longer than the {LONGEST_GIVEN_SOCKET} bytes a Unix socket may have."
            )
        return given
    if home == SYSTEM_HOME or (systems and SYSTEM_SOCKET.parent.is_dir()):
        return SYSTEM_SOCKET
    folders = [home / "run"] if settings.home else []
    for folder in folders + runtime_dirs(home, environ):
        if len(os.fsencode(folder / "daemon.sock")) <= LONGEST_SOCKET:
            return folder / "daemon.sock"
    raise AssertionError("the last folder is short")


def runtime_dirs(home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Return private directories for the sockets of this home alone, best first; the last one is always short."""
    name = "rwkvctl"
    if home != Path(f"{environ.get('HOME', '/')}/.local/share/rwkvctl"):
        from hashlib import sha256  # start-up time that most calls need not pay

        name = f"rwkvctl-{sha256(os.fsencode(home)).hexdigest()[:8]}"
    runtime, temporary = environ.get("XDG_RUNTIME_DIR", ""), environ.get("TMPDIR", "")
    folders = [Path(runtime) / name] if runtime.startswith("/") else []
    folders += [Path(temporary) / f"{name}-{os.getuid()}"] if temporary.startswith("/") else []
    return [*folders, Path(f"/tmp/{name}-{os.getuid()}")]  # noqa: S108 - made with mode 0700


def service_runtime_folder(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder of a user's service for its sockets: the RuntimeDirectory= of its unit; None without one."""
    runtime = (os.environ if environ is None else environ).get("XDG_RUNTIME_DIR", "")
    return Path(runtime) / "rwkvctl" if runtime.startswith("/") else None


def temporary_folders(environ: Mapping[str, str] | None = None) -> list[Path]:
    """Return the candidates for temporary files, of which the first writable one is used: as Python's `tempfile`
    searches in our workers, whose only variable for it is TMPDIR."""
    named = (os.environ if environ is None else environ).get("TMPDIR", "")
    return [Path(folder) for folder in (named, "/tmp", "/var/tmp", "/usr/tmp") if folder]  # noqa: S108 - only looked at


def folders_of(variable: str, environ: Mapping[str, str] | None = None) -> list[Path]:
    """Return the folders of another program's search path variable (NLTK_DATA)."""
    text = (os.environ if environ is None else environ).get(variable, "")
    return [Path(folder) for folder in text.split(os.pathsep) if folder]


def marker(name: str, environ: Mapping[str, str] | None = None) -> str:
    """Return the value of one of the MARKERS, empty if it is not set."""
    assert name in MARKERS, name
    return (os.environ if environ is None else environ).get(name, "")


def base_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment that a worker starts from. It gets settings and markers as files and flags."""
    return worker_environment.for_workers(os.environ if environ is None else environ)


def terminal_environment() -> dict[str, str]:
    """Return the whole environment of this process, from which the command line learns about the terminal."""
    return dict(os.environ)


def secret_file(text: str, environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of a file of secrets: as given, or `credential:NAME` for one that the service manager passes
    (LoadCredential=). Raises ConfigError if it passes none."""
    scheme, colon, name = text.partition(":")
    if scheme != "credential" or not colon:
        return absolute("a file of secrets", text)
    folder = (os.environ if environ is None else environ).get("CREDENTIALS_DIRECTORY", "")
    if not folder or not name or "/" in name:
        raise ConfigError(f"{text}: the service manager passes no such credential; add LoadCredential={name}:FILE.")
    return Path(folder) / name


def is_credential(path: Path, environ: Mapping[str, str] | None = None) -> bool:
    """Whether the service manager passed that file: it keeps it private by access lists, which look like group
    permissions."""
    folder = (os.environ if environ is None else environ).get("CREDENTIALS_DIRECTORY", "")
    return bool(folder) and path.parent == Path(folder)


def take_service_variables(environ: MutableMapping[str, str] | None = None) -> dict[str, str]:
    """Return the service manager's variables and remove them: a worker that inherited them would speak for us."""
    environ = os.environ if environ is None else environ
    return {name: environ.pop(name) for name in SERVICE_VARIABLES if name in environ}
