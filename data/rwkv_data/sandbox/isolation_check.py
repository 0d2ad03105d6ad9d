"""Test whether this machine can isolate untrusted code, with a program that reports what it can reach."""

import json

from rwkv_data.sandbox.program import Limits
from rwkv_data.sandbox.sandbox import Sandbox, SandboxUnavailableError, remedy

_TEST_PROGRAM = """
import ctypes, json, os, resource
def refused(action):
    try:
        action()
    except OSError:
        return True
    return False
def open_socket():
    if ctypes.CDLL(None, use_errno=True).socket(2, 1, 0) < 0:
        raise OSError
print(json.dumps({
    "a process namespace of its own": os.getpid() == 1,
    "a user that is not root": os.getuid() != 0 and os.geteuid() != 0,
    "a read-only file system": refused(lambda: open("/usr/lib/rwkvctl-probe", "w")),
    "no view of the host's files": not any(os.path.exists(path) for path in ("/proc/self", "/etc/passwd", "/home")),
    "no network": refused(open_socket),
    "a limit on memory": resource.getrlimit(resource.RLIMIT_AS)[0] == MEMORY,
    "no processes of its own": refused(os.fork),
}))
"""


def available() -> str:
    """Return an empty text if every layer works here; else a sentence that says which does not, and what helps."""
    limits = Limits(memory_mb=512)
    try:
        with Sandbox(limits) as sandbox:
            outcome = sandbox.script(_TEST_PROGRAM.replace("MEMORY", str(limits.memory_mb << 20)))
    except SandboxUnavailableError as error:
        return str(error)
    if outcome.status != "passed":
        return remedy(f"a harmless program ended as {outcome.status}: {outcome.detail}")
    missing = [layer for layer, works in json.loads(outcome.output).items() if not works]
    return remedy(f"without {', '.join(missing)}") if missing else ""
