"""The record that a shim writes about its worker: `workers.worker_process` reads it, `exit_rules` judges it."""

import msgspec


class ShimRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of the worker, written before it starts, and its exit, added after it ended. `oom`: whether the
    kernel was killing processes for lack of memory just then, in the worker's `cgroup` or in the `machine`; empty if it
    was not, None if that is unknown."""

    shim: int
    shim_start: int
    pid: int
    pid_start: int
    boot_id: str
    done: bool = False
    code: int | None = None
    signal: int | None = None
    oom: str | None = None
    max_rss_kib: int = 0
    user_s: float = 0.0
    system_s: float = 0.0
    wall_s: float = 0.0
    cgroup: str = ""
