"""The settings of an operator, their help, and their conversion from text."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.protocol.numerics import NUMERICS

PROTECTED_COMMANDS: Final = (
    "Xorg Xwayland gdm* nvidia-persiste* nvidia-cuda-mps* nv-hostengine dcgm* "
    "*jupyter* ipykernel* gdb cuda-gdb lldb strace"
)
REAP: Final = ("auto", "ask", "off")

LOG_FORMATS: Final = ("auto", "text", "journal", "json")


def setting(default: Any, help_text: str, *, restart: bool = False) -> Any:
    """Return a dataclass field with the help that `config show` prints. `restart`: a running daemon keeps the old value
    until it is restarted, as `rwkvctl reload` reports."""
    return field(default=default, metadata={"help": help_text, "restart": restart})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of an operator. Units are in the names; an empty path means: derived from `home`."""

    home: str = setting("", "folder of data, weights, runs and the store", restart=True)
    socket: str = setting("", "the daemon's Unix socket; for clients also https://HOST:PORT", restart=True)
    store: str = setting(
        "",
        "postgresql://USER@HOST/DATABASE in place of store.sqlite; with a password: a file that holds it",
        restart=True,
    )
    weights_dir: str = setting("", "folder of checkpoints")
    data_dir: str = setting("", "folder of prepared rows", restart=True)
    dispatch_asks_above: int = setting(50, "`dispatch` asks before it queues more jobs than this; 0: it never asks")
    checker: bool = setting(
        False,
        "let the judge also check wrong answers, at one call each; a [checker] table or CHECKER_MODEL asks "
        "for it as well",
    )
    idle_unload_s: float = setting(600.0, "an engine without work is unloaded after this time")
    engine_start_timeout_s: float = setting(600.0, "an engine that is not ready after this time is stopped")
    engine_hang_s: float = setting(120.0, "an engine whose step counter does not move for this long is killed")
    engine_slots: int = setting(0, "sequences an engine runs at once; 0: the engine decides")
    engine_threads: int = setting(0, "threads of an engine on the CPU; 0: all cores but one")
    cpu_engines: bool = setting(False, "let engines run on the CPU of a node that has GPUs, too")
    share_gpus: int = setting(1, "engines that may share one GPU where its memory allows; 1: each has its own")
    lease_dir: str = setting(
        "", "folder of GPU locks, shared by all users of the machine (default: /run/lock, else /tmp)"
    )
    numerics: str = setting("auto", "auto (fast on GPUs, fp32 on the CPU), or a profile: " + ", ".join(NUMERICS))
    runners_per_engine: int = setting(4, "jobs that may feed one engine at the same time")
    max_restarts: int = setting(3, "restarts of a runner or engine before its job fails")
    restart_backoff_s: float = setting(1.0, "wait before the first restart; doubles each time")
    stop_grace_s: float = setting(30.0, "time a worker has to stop when asked, before SIGTERM")
    stop_term_s: float = setting(20.0, "time a worker has after SIGTERM, before SIGKILL")
    stop_kill_s: float = setting(60.0, "time a worker has after SIGKILL, before it counts as stuck")
    pause_grace_s: float = setting(60.0, "time a runner that is paused has to finish its batch, before it is stopped")
    stall_s: float = setting(
        600.0, "a job without a new token or sample for this long is restarted; its stack traces are kept"
    )
    worker_cgroup: str = setting(
        "", "cgroup v2 folder for workers; empty: the one the service manager delegated; off: none", restart=True
    )
    engine_memory_max_bytes: int = setting(0, "memory of an engine's processes, by its cgroup; 0: no limit")
    runner_memory_max_bytes: int = setting(0, "memory of a runner and the programs it grades; 0: no limit")
    worker_pids_max: int = setting(4096, "processes and threads of one worker, by its cgroup; 0: no limit")
    log_cap_bytes: int = setting(
        64 * 1024 * 1024, "bytes kept of the end of a worker's log, besides its beginning; 0: all"
    )
    logs_total_bytes: int = setting(4 * 1024**3, "above this, the oldest logs of finished work are removed; 0: never")
    log_link_dirs: str = setting(
        "", "where users may have links to logs (--run-log-dir), folders with colons between; root may anywhere"
    )
    min_free_disk_bytes: int = setting(
        256 * 1024 * 1024, "with less free disk space than this, no job starts and running ones are paused"
    )
    ballast_bytes: int = setting(
        0, "size of a reserve file that is deleted when the disk is full, so that running jobs can end"
    )
    grading_slots: int = setting(
        0, "programs of graders at work at once on this node, and jobs graded again side by side; 0: one a core"
    )
    run_untrusted_code_unsandboxed: bool = setting(
        False, "run code that models write without isolation where the sandbox does not work; scores record it"
    )
    socket_group: str = setting(
        "", "the group that may use the daemon's socket; empty: root and the daemon's user only", restart=True
    )
    service_user: str = setting("rwkvctl", "the user whose daemon clients trust, besides root and themselves")
    requests_per_s: float = setting(100.0, "requests per second from one user, admins excepted; 0: no limit")
    listen_tcp: str = setting(
        "", "HOST:PORT for clients on other machines; needs the next three settings", restart=True
    )
    tls_cert: str = setting("", "the daemon's certificate for TCP, with its chain (PEM)", restart=True)
    tls_key: str = setting("", "the private key of that certificate: a file, or credential:NAME", restart=True)
    tokens_file: str = setting("", "tokens of TCP clients, lines of ROLE NAME TOKEN: a file, or credential:NAME")
    client_token_file: str = setting("", "a client's token for a socket of the form https://HOST:PORT")
    client_ca_file: str = setting("", "the certificate, or its authority, that a daemon on https:// must have (PEM)")
    log_format: str = setting("auto", "text, journal or json; auto: journal if journald listens, else text")
    sampler_deadline_s: float = setting(5.0, "a GPU sampler that sends nothing for longer counts as hung")
    gpu_idle_window_s: float = setting(
        60.0, "a foreign process that holds GPU memory and computes nothing for this long counts as waiting"
    )
    reap: str = setting("ask", "orphans of this daemon on GPUs: auto (ended when idle), ask (only reported), or off")
    reap_grace_s: float = setting(60.0, "an orphan is left alone for this long after its attempt ended")
    reap_idle_s: float = setting(120.0, "an orphan is ended only after this long without any activity")
    protect_users: str = setting("", "users whose processes are never touched, names separated by blanks")
    protect_commands: str = setting(PROTECTED_COMMANDS, "programs that are never touched: patterns of their names")
    protect_cgroups: str = setting(
        "/system.slice/*.service*", "cgroups that are never touched: patterns of their paths"
    )


def place(origin: str, name: str) -> str:
    """Return where a setting was set, with the line if that is a file."""
    return f"{origin}:{line_of(Path(origin).read_text(encoding='utf-8'), name)}" if origin.startswith("/") else origin


def convert(name: str, raw: object, origin: str) -> object:
    """Convert a value from a file, variable or flag to the setting's type. Raises ConfigError."""
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
        raise ConfigError(f"{place(origin, name)}: {name} must be {wanted.__name__}, not {raw!r}.")
    if name == "log_format" and value not in LOG_FORMATS:
        raise ConfigError(f"{place(origin, name)}: log_format must be one of {', '.join(LOG_FORMATS)}, not {raw!r}.")
    if name == "numerics" and value not in {"auto", *NUMERICS}:
        raise ConfigError(f"{place(origin, name)}: numerics must be auto or one of {', '.join(NUMERICS)}, not {raw!r}.")
    if name == "reap" and value not in REAP:
        raise ConfigError(f"{place(origin, name)}: reap must be one of {', '.join(REAP)}, not {raw!r}.")
    if name == "store":
        from rwkvctl.settings import store_url  # start-up time that a node with its own file need not pay

        store_url.checked(str(value), place(origin, name))
    if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
        raise ConfigError(f"{place(origin, name)}: {name} must be a finite number and not negative, is {raw!r}.")
    return value


def line_of(text: str, name: str) -> int:
    """Return the line on which a key is set (1 if it cannot be found)."""
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        key = line.partition("=")[0].strip("[] \t").partition(".")[0]
        if key.strip("\"' \t") == name:
            return number
    return 1
