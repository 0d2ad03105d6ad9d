"""Runs code that nobody has read: what a model wrote, tests that came with a data set.

Layers, each of which holds without the others: a mount namespace with a read-only tree of the interpreter's library and
a fresh tmpfs; namespaces of processes, network, IPC and names; a user that owns nothing and has no capability; a list
of allowed kernel calls; limits on processor time, wall time, address space, processes, threads, files and output. Only
the standard library is used, and no other program is needed.
"""

from rwkv_data.sandbox.isolation_check import available
from rwkv_data.sandbox.program import Limits, ProgramOutcome
from rwkv_data.sandbox.sandbox import Sandbox, SandboxUnavailableError

__all__ = ["Limits", "ProgramOutcome", "Sandbox", "SandboxUnavailableError", "available"]
