"""Starts a zygote in namespaces of its own: `python -P -s -S -B launcher.py DESCRIPTOR MODE [MODULE...]`.

A program of its own, run by the bare interpreter: it finds its modules by the folder it lies in, and needs neither the
package's `__init__` nor anything that is installed. MODE is `isolated` or `unsafe`; the modules are drivers to import.

As root, the namespace knows two users: its root, which builds the tree, and one that owns nothing anywhere (a number
of its own for every zygote, so that their process counts are apart). An ordinary user is the only one that the kernel
lets it map, so a guest is that user outside, but sees none of that user's files and has none of its processes in reach.
"""

import json
import os
import signal
import socket
import sys
import types
from contextlib import suppress
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
_ONE_USER, _TWO_USERS = b"1", b"2"


def _packages() -> None:
    """Make `rwkv_data.sandbox` and its neighbours importable without running any `__init__`."""
    root = _FOLDER.parent
    for name, folder in {
        "rwkv_data": root,
        "rwkv_data.sandbox": _FOLDER,
        "rwkv_data.graders": root / "graders",
        "rwkv_data.graders.code": root / "graders" / "code",
    }.items():
        module = types.ModuleType(name)
        module.__path__ = [str(folder)]
        sys.modules[name] = module
    sys.path = [path for path in sys.path if Path(path).resolve() != _FOLDER]


def main() -> None:
    """Become the zygote's parent, or report why it cannot start."""
    _packages()
    os.umask(0o022)  # guests are another user than the one that builds their root, and must see into it
    with suppress(OSError):  # when the machine runs out of memory, this goes before the daemon and its engines
        Path("/proc/self/oom_score_adj").write_text("900", encoding="ascii")
    control = socket.socket(fileno=int(sys.argv[1]))
    try:
        _isolated(control, sys.argv[3:]) if sys.argv[2] == "isolated" else _unsafe(control, sys.argv[3:])
    except OSError as error:
        control.send(json.dumps({"trouble": str(error)}).encode())
        sys.exit(1)


def _unsafe(control: socket.socket, preload: list[str]) -> None:
    from rwkv_data.sandbox import guest, processor_waits, zygote

    zygote.main(control, guest.Confinement(isolated=False, other_user=False), preload, processor_waits.ProcessorWaits())


def _isolated(control: socket.socket, preload: list[str]) -> None:
    """Clone the zygote, map its users, and answer its questions about the host until its end."""
    from rwkv_data.sandbox import linux, processor_waits

    root = os.geteuid() == 0
    with suppress(PermissionError):  # an ordinary user keeps its groups: what they could open is not there
        os.setgroups([])
    go, say_go = os.pipe()
    asked, outside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    spaces = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
    spaces |= linux.CLONE_NEWCGROUP
    pid, mapped = _clone(spaces, root=root)
    if pid == 0:
        os.close(say_go)
        asked.close()
        _become_zygote(control, preload, go, outside)
    control.detach()
    outside.close()
    try:
        two_users = _map_users(pid, root=root) if mapped else True
    except OSError as error:
        os.kill(pid, signal.SIGKILL)
        raise OSError(f"cannot map users: {error}") from error
    os.write(say_go, _TWO_USERS if two_users else _ONE_USER)
    os.close(say_go)
    with asked:
        processor_waits.serve(asked)
    _, status = os.waitpid(pid, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _clone(spaces: int, *, root: bool) -> tuple[int, bool]:
    """Return (process id, whether it has a user namespace). Real root needs none where the kernel allows none."""
    from rwkv_data.sandbox import linux

    try:
        return linux.clone(spaces | linux.CLONE_NEWUSER), True
    except OSError as error:
        if not root:
            raise
        with suppress(OSError):
            return linux.clone(spaces), False
        raise OSError(f"no namespaces: {error}") from error


def _map_users(pid: int, *, root: bool) -> bool:
    """Map the users of the namespace; return whether there are two."""
    from rwkv_data.sandbox.guest import USER

    nobody = 0x7000_0000 + int.from_bytes(os.urandom(3), "big")
    for other in (nobody, USER) if root else ():  # root of a container may itself have few users
        with suppress(OSError):
            for name in ("uid_map", "gid_map"):
                Path(f"/proc/{pid}/{name}").write_text(f"0 0 1\n{USER} {other} 1")
            return True
    Path(f"/proc/{pid}/setgroups").write_text("deny")
    Path(f"/proc/{pid}/uid_map").write_text(f"{USER} {os.geteuid()} 1")
    Path(f"/proc/{pid}/gid_map").write_text(f"{USER} {os.getegid()} 1")
    return False


def _become_zygote(control: socket.socket, preload: list[str], go: int, outside: socket.socket) -> None:
    from rwkv_data.sandbox import filesystem, guest, linux, processor_waits, zygote

    try:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
        users = os.read(go, 1)
        if not users:
            os._exit(1)
        os.close(go)
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        socket.sethostname("sandbox")
        if users == _TWO_USERS:
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
        warm = [*zygote.WARM, *preload]
        for name in warm:
            __import__(name)  # while the package's folder can still be seen
        filesystem.build_root()
        linux.forget_capabilities()
        confinement = guest.Confinement(isolated=True, other_user=users == _TWO_USERS)
        zygote.main(control, confinement, preload, processor_waits.RemoteProcessorWaits(outside))
    except Exception as error:  # noqa: BLE001  # whatever is missing is reported to the caller
        with suppress(OSError):
            control.send(json.dumps({"trouble": f"{error}"}).encode())
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
