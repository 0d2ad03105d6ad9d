"""`rwkvctl service`: the daemon as a service of systemd."""

import contextlib
import os
import pwd
import sys
from pathlib import Path

from rwkvctl.cli.confirm import confirm
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import Cell, Column, Role, Table
from rwkvctl.cli.service import remains, systemctl, unit_folders, units
from rwkvctl.cli.service.units import UnitFile
from rwkvctl.protocol.errors import Exit, RefusedError, RwkvctlError
from rwkvctl.settings.config import SYSTEM_FILE, SYSTEM_HOME, service_runtime_folder

STATES: dict[str, Role] = {"installed": "ok", "outdated": "warn", "edited": "warn", "absent": "dim"}
SHOWN = "ControlGroup,LoadState,UnitFileState,ActiveState,SubState,MainPID,NRestarts,StatusText,Result"


@verb
def service_install(
    context: Context, *, user: bool = False, root: str = "", dry_run: bool = False, yes: bool = False
) -> int:
    """Write the service's units for this installation, and show what to run next. Nothing is started.

    The system's service runs as the user rwkvctl without any privilege; with --user it is yours alone and needs no
    root. A unit that you have edited is not replaced: put changes into a drop-in (`systemctl edit rwkvctl`).

    Exit code 5 if an edited unit is in the way.

    user: for this user alone, in ~/.config/systemd/user
    root: write below this folder, for a package or an image
    dry_run: only show what would be written
    yes: also replace edited units

    $ rwkvctl service install --dry-run
    $ rwkvctl service install
    $ rwkvctl service install --user
    """
    files = files_of(context, user=user, root=root)
    states = {file.path: units.state(file) for file in files}
    if edited := [str(path) for path, state in states.items() if state == "edited" and not yes]:
        hint = "Put your changes into a drop-in (`systemctl edit rwkvctl`), or use --yes to replace the file."
        raise RefusedError("edited", f"{', '.join(edited)} was edited by hand.", hint, Exit.REFUSED)
    todo = [file for file in files if states[file.path] != "installed"]
    for file in [] if dry_run else todo:
        units.write(file)
    word = "would write" if dry_run else "written"
    done = {str(file.path): word if file in todo else "unchanged" for file in files}
    commands = after_install(user=user, root=root, changed=bool(todo))
    show(context, done, commands)
    if not user and (trouble := without_temporary_folder(files[0].path)):
        context.terminal.note(f"warning: {files[0].path}, with its drop-ins, {trouble}", "warn")
    if (closed := units.unreachable(sys.executable)) and not user:
        context.terminal.note(
            f"warning: {sys.executable} lies below {closed}, which the user rwkvctl cannot enter: install rwkvctl "
            "elsewhere (/opt/rwkvctl), or use --user", "warn",
        )  # fmt: skip
    return Exit.OK


@verb
def service_uninstall(
    context: Context, *, user: bool = False, root: str = "", dry_run: bool = False, yes: bool = False
) -> int:
    """Stop the service, end its processes, and remove its units and everything else that it made.

    Engines and runners outlive the daemon; this command ends them, too. It shows
    what still runs and asks, unless --yes is given. It removes the units, the
    links that enable them, sockets, temporary files, caches and unused locks. It
    keeps the home with its scores, your configuration and drop-ins, and the user
    rwkvctl, and lists them. Jobs continue when a daemon starts on this home again.

    Exit code 5 if --yes is needed and not given, or an edited unit is in the way.

    user: the service of this user
    root: below this folder; nothing is stopped
    dry_run: only show what would be removed
    yes: do not ask, and also remove edited units

    $ sudo rwkvctl service uninstall
    $ rwkvctl service uninstall --user
    """
    files = files_of(context, user=user, root=root)
    there = [file.path for file in files if units.state(file) != "absent"]
    if edited := [str(file.path) for file in files if units.state(file) == "edited" and not yes]:
        raise RefusedError("edited", f"{', '.join(edited)} was edited.", "Use --yes to remove it.", Exit.REFUSED)
    folder = files[0].path.parent
    paths = [*there, *remains.links(folder)]
    if closed := [str(path.parent) for path in paths if not os.access(path.parent, os.W_OK)]:
        raise RwkvctlError(f"{closed[0]} cannot be written: run it as root, or with --user.")
    done: dict[str, str] = {}
    if not root:
        done |= stopped(context, user=user, dry_run=dry_run, yes=yes)
    done |= removed(paths, dry_run=dry_run)
    if not root and paths and not dry_run:
        systemctl.spoken("daemon-reload", user=user)
        systemctl.spoken("reset-failed", remains.UNIT, user=user)
    done |= cleared(user=user, root=root, dry_run=dry_run)
    done |= {str(path): "kept: your file" for path in remains.drop_ins(folder)}
    if not root:
        done |= kept(context, user=user)
    show(context, done, [])
    return Exit.OK


def stopped(context: Context, *, user: bool, dry_run: bool, yes: bool) -> dict[str, str]:
    """Stop the daemon and end the processes left in its control group; return what was done, by its object. Raises
    RefusedError if it is not confirmed, RwkvctlError if something does not end."""
    group = remains.control_group(properties(user=user).get("ControlGroup", ""), user=user)
    there = remains.members(group)
    active = properties(user=user, unit="rwkvctl.socket").get("ActiveState") == "active"
    if not there and not active:
        return {}
    what = f"{remains.counted(there)} of the service" if there else "the service's socket"
    if dry_run:
        return {what: "would end" if there else "would close"}
    if there:
        question = f"The service still has {remains.counted(there)}. End them all? Jobs resume with the next daemon."
        confirm(context, question, yes=yes)
    for unit in ("rwkvctl.socket", remains.UNIT):  # in this order, or a client would start it again
        systemctl.spoken("stop", unit, user=user)
    if stuck := remains.end(group):
        pids = ", ".join(map(str, stuck))
        raise RwkvctlError(
            f"The daemon is stopped, but processes {pids} do not end even after SIGKILL: they wait for the driver "
            "or a disk. Nothing was removed; reboot, then run this again."
        )
    return {what: "ended" if there else "closed"}


def removed(paths: list[Path], *, dry_run: bool) -> dict[str, str]:
    """Remove files and links, and their folders once those are empty; return what was done to each path. Raises
    RwkvctlError if one cannot be removed."""
    try:
        for path in [] if dry_run else paths:
            path.unlink()
            with contextlib.suppress(OSError):  # something of somebody else's lies there
                path.parent.rmdir()
    except OSError as error:
        raise RwkvctlError(f"{error.filename} cannot be removed: {error.strerror}.") from error
    return {str(path): "would remove" if dry_run else "removed" for path in paths}


def cleared(*, user: bool, root: str, dry_run: bool) -> dict[str, str]:
    """Remove the folders that were made for the service. Raises RwkvctlError."""
    ways = remains.made(Path(root or "/"))
    if user:
        folder = None if root else service_runtime_folder()
        ways = {folder: remains.remove_folder} if folder and folder.exists() else {}
    try:
        return {str(folder): "would remove" if dry_run else way(folder) or "removed" for folder, way in ways.items()}
    except OSError as error:
        raise RwkvctlError(f"{error.filename} cannot be removed: {error.strerror}.") from error


def kept(context: Context, *, user: bool) -> dict[str, str]:
    """Return what is left in place, and how it can be removed."""
    found: dict[str, str] = {}
    home = context.config.home if user or context.config.folder == SYSTEM_FILE.parent else SYSTEM_HOME
    if home.exists():
        found[str(home)] = f"kept: scores, samples, rows, weights; `rm -r {home}` removes them"
    with contextlib.suppress(KeyError):
        if not user and pwd.getpwnam("rwkvctl"):
            found["user rwkvctl"] = "kept: it owns the files that are kept; `userdel rwkvctl` removes it"
    return found


@verb
def service_status(context: Context, *, user: bool = False) -> int:
    """Show whether the units are installed and unchanged, and their state in systemd.

    Exit code 1 if a unit is absent, or has a harmful directive.

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
        rows.append(
            [str(file.path), Cell(state, STATES[state]), f"harmful directives: {', '.join(bad)}" if bad else ""]
        )
        items.append({"path": str(file.path), "state": state, "forbidden": bad})
    known = properties(user=user)
    rows += [[name, value, ""] for name, value in known.items() if value]
    if not known:
        rows.append(["systemd", "does not answer", ""])
    table = Table([Column("WHAT", cut="middle"), Column("STATE"), Column("NOTE", cut="end")], rows)
    context.show_local("rwkvctl.service/1", {"items": items, "systemd": known}, table)
    return Exit.FAILED if any(item["state"] == "absent" or item["forbidden"] for item in items) else Exit.OK


def without_temporary_folder(unit: Path) -> str:
    """Return what is wrong with the temporary folder of an installed unit; empty if nothing is, or there is no unit."""
    texts = units.texts_of(unit).values()
    if trouble := unit_folders.without_temporary(texts):
        return trouble
    named = unit_folders.temporary_folder(unit_folders.in_force(texts))
    place = next((place for place in (Path(named), *Path(named).parents) if place.exists()), Path("/"))
    if named and os.statvfs(place).f_flag & os.ST_RDONLY:
        return f"names {named} as TMPDIR, and {place} is on a file system that is mounted read-only"
    return ""


def files_of(context: Context, *, user: bool, root: str) -> list[UnitFile]:
    """Return the files to install: of the system's service or of this user's, below `root` where it is given."""
    systemd = systemctl.version()
    if not user:
        return units.system_files(Path(root) if root else Path("/"), systemd)
    files = units.user_files(context.config, systemd)
    return [UnitFile(Path(root) / file.path.relative_to("/"), file.text) for file in files] if root else files


def after_install(*, user: bool, root: str, changed: bool) -> list[str]:
    """Return the commands to run next. A running service reads its units at a restart; its workers continue."""
    command = systemctl.command(user=user)
    start = [f"{command} daemon-reload", f"{command} enable --now rwkvctl.socket rwkvctl.service"]
    if root:
        return []
    if changed and properties(user=user).get("ActiveState") == "active":
        start.append(f"{command} restart rwkvctl.service")
    if user:
        return [*start, "loginctl enable-linger"]
    people = "usermod -aG rwkvctl NAME   # for each user who operates the node"
    return ["systemd-sysusers", "systemd-tmpfiles --create", *start, people]


def properties(*, user: bool, unit: str = remains.UNIT) -> dict[str, str]:
    """Return systemd's properties of the service, or of its socket; empty if systemd is absent or does not answer."""
    pairs = (
        line.partition("=") for line in systemctl.spoken("show", f"--property={SHOWN}", unit, user=user).split("\n")
    )
    return {name: value for name, _, value in pairs}


def show(context: Context, done: dict[str, str], commands: list[str]) -> None:
    """Print what was done to each file, and the commands to run next."""
    rows: list[list[str | Cell]] = [
        [path, Cell(what, "dim" if what.startswith(("unchanged", "kept")) else "ok")] for path, what in done.items()
    ]
    items = [{"path": path, "done": what} for path, what in done.items()]
    table = Table([Column("FILE", cut="middle"), Column("DONE")], rows, "nothing to do")
    context.show_local("rwkvctl.service-files/1", {"items": items, "next": commands}, table)
    if commands and not context.as_json:
        context.say("next:")
        for command in commands:
            context.say(f"  {command}")
