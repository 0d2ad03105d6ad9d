"""`rwkvctl service`: the daemon as a service of systemd."""

import shutil
import subprocess
import sys
from pathlib import Path

from rwkvctl import units
from rwkvctl.context import Context
from rwkvctl.protocol.errors import Exit, RefusedError, RwkvctlError
from rwkvctl.render import Cell, Column, Role, Table
from rwkvctl.units import UnitFile
from rwkvctl.verbs import verb

STATES: dict[str, Role] = {"installed": "ok", "outdated": "warn", "edited": "warn", "absent": "dim"}
ANSWER_S = 10.0
SHOWN = "LoadState,UnitFileState,ActiveState,SubState,MainPID,NRestarts,StatusText,Result"


@verb
def service_install(
    context: Context, *, user: bool = False, root: str = "", dry_run: bool = False, yes: bool = False
) -> int:
    """Write the service's units for this installation, and say what to run next. Nothing is started.

    The system's service runs as the user rwkvctl without any privilege; with --user it is yours alone and needs no
    root. A unit that you have edited is left alone: changes belong into a drop-in (`systemctl edit rwkvctl`).

    Exit code 5 if an edited unit is in the way.

    user: for this user alone, in ~/.config/systemd/user
    root: write below this folder, for a package or an image
    dry_run: say what would be written
    yes: replace units that were edited too

    $ rwkvctl service install --dry-run
    $ rwkvctl service install
    $ rwkvctl service install --user
    """
    files = files_of(context, user=user, root=root)
    states = {file.path: units.state(file) for file in files}
    if edited := [str(path) for path, state in states.items() if state == "edited" and not yes]:
        hint = "Put your changes into a drop-in (`systemctl edit rwkvctl`), or say --yes to replace the file."
        raise RefusedError("edited", f"{', '.join(edited)} was edited by somebody.", hint, Exit.REFUSED)
    todo = [file for file in files if states[file.path] != "installed"]
    for file in [] if dry_run else todo:
        units.write(file)
    word = "would write" if dry_run else "written"
    done = {file.path: word if file in todo else "as it was" for file in files}
    commands = after_install(user=user, root=root)
    show(context, done, commands)
    if (closed := units.unreachable(sys.executable)) and not user:
        context.terminal.note(
            f"warning: {sys.executable} lies below {closed}, which the user rwkvctl may not enter: install rwkvctl "
            "elsewhere (/opt/rwkvctl), or use --user", "warn",
        )  # fmt: skip
    return Exit.OK


@verb
def service_uninstall(
    context: Context, *, user: bool = False, root: str = "", dry_run: bool = False, yes: bool = False
) -> int:
    """Remove the service's units. The home, its scores and the user rwkvctl stay.

    Exit code 5 if the service still runs, or an edited unit is in the way.

    user: the service of this user
    root: below this folder
    dry_run: say what would be removed
    yes: remove units that were edited too

    $ rwkvctl service uninstall
    """
    files = [file for file in files_of(context, user=user, root=root) if units.state(file) != "absent"]
    if not root and not dry_run and properties(user=user).get("ActiveState") in {"active", "activating", "reloading"}:
        hint = f"Run `{manager(user)} disable --now rwkvctl.socket rwkvctl.service` first; its workers go on."
        raise RefusedError("active", "The service still runs.", hint, Exit.REFUSED)
    if edited := [str(file.path) for file in files if units.state(file) == "edited" and not yes]:
        raise RefusedError("edited", f"{', '.join(edited)} was edited.", "Say --yes to remove it.", Exit.REFUSED)
    try:
        for file in [] if dry_run else files:
            file.path.unlink()
    except OSError as error:
        raise RwkvctlError(f"{error.filename} cannot be removed: {error.strerror}.") from error
    done = {file.path: "would remove" if dry_run else "removed" for file in files}
    show(context, done, [] if root or not files else [f"{manager(user)} daemon-reload"])
    return Exit.OK


@verb
def service_status(context: Context, *, user: bool = False) -> int:
    """Whether the units are installed and as they should be, and what systemd says of them.

    Exit code 1 if a unit is absent, or has a directive that breaks something.

    user: the service of this user

    $ rwkvctl service status
    $ rwkvctl service status --user --json
    """
    files = files_of(context, user=user, root="")
    rows: list[list[str | Cell]] = []
    items: list[dict[str, object]] = []
    for file in files:
        state = units.state(file)
        bad = list(units.forbidden_in(file.path.read_text(encoding="utf-8"))) if state == "edited" else []
        rows.append([str(file.path), Cell(state, STATES[state]), f"breaks something: {', '.join(bad)}" if bad else ""])
        items.append({"path": str(file.path), "state": state, "forbidden": bad})
    known = properties(user=user)
    rows += [[name, value, ""] for name, value in known.items() if value]
    if not known:
        rows.append(["systemd", "does not answer here", ""])
    table = Table([Column("WHAT", cut="middle"), Column("STATE"), Column("NOTE", cut="end")], rows)
    context.show_local("rwkvctl.service/1", {"items": items, "systemd": known}, table)
    return Exit.FAILED if any(item["state"] == "absent" or item["forbidden"] for item in items) else Exit.OK


def files_of(context: Context, *, user: bool, root: str) -> list[UnitFile]:
    """The files that are meant."""
    if not user:
        return units.system_files(Path(root) if root else Path("/"))
    files = units.user_files(context.config)
    return [UnitFile(Path(root) / file.path.relative_to("/"), file.text) for file in files] if root else files


def after_install(*, user: bool, root: str) -> list[str]:
    """What to run next."""
    start = [f"{manager(user)} daemon-reload", f"{manager(user)} enable --now rwkvctl.socket rwkvctl.service"]
    if root:
        return []
    if user:
        return [*start, "loginctl enable-linger"]
    people = "usermod -aG rwkvctl NAME   # for each who is to operate the node"
    return ["systemd-sysusers", "systemd-tmpfiles --create", *start, people]


def manager(user: bool) -> str:
    """How systemd is spoken to."""
    return "systemctl --user" if user else "systemctl"


def properties(*, user: bool) -> dict[str, str]:
    """What systemd says of the service; nothing where it is not there, or does not answer."""
    if shutil.which("systemctl") is None:
        return {}
    words = [*manager(user).split(), "show", f"--property={SHOWN}", "rwkvctl.service"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=ANSWER_S)
    except subprocess.TimeoutExpired:
        return {}
    pairs = (line.partition("=") for line in done.stdout.split("\n"))
    return {name: value for name, _, value in pairs} if done.returncode == 0 else {}


def show(context: Context, done: dict[Path, str], commands: list[str]) -> None:
    """What became of each file, and the commands that follow."""
    rows: list[list[str | Cell]] = [
        [str(path), Cell(what, "ok" if what != "as it was" else "dim")] for path, what in done.items()
    ]
    items = [{"path": str(path), "done": what} for path, what in done.items()]
    table = Table([Column("FILE", cut="middle"), Column("DONE")], rows, "there is nothing to do")
    context.show_local("rwkvctl.service-files/1", {"items": items, "next": commands}, table)
    if commands and not context.as_json:
        context.say("next:")
        for command in commands:
            context.say(f"  {command}")
