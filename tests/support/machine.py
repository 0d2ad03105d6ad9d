"""A machine of its own in namespaces: systemd as process 1 over a copy-on-write view of this machine's files.

Nothing of it shows outside, and all of it ends with the process that began it: its files are in memory, its services
in a cgroup of their own, its network has no way out. Units that would touch the kernel or devices are taken away.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from waiting import LIMIT_S, wait_for

SYSTEMD = "/lib/systemd/systemd"
BASE = os.environ.get("TEST_MACHINE_BASE", "/")
"""What the machine is made of: this one, or the root folder of another distribution, to test with its systemd."""
NAMESPACES = ("--mount", "--pid", "--cgroup", "--ipc", "--uts", "--net")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OWN = ("/run/log", "/run/systemd", "/var/lib/systemd", "/etc/.pwd.lock")
"""What systemd and its programs keep for themselves."""
BUILD = r"""
set -eu
at=$1 base=$2; shift 2
mount --make-rprivate /
mount -t tmpfs -o mode=755 machine "$at"
root=$at/root
mkdir "$at/upper" "$at/work" "$root"
mount -t overlay -o "lowerdir=$base,upperdir=$at/upper,workdir=$at/work" machine "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for name in run tmp var/tmp dev; do mount -t tmpfs -o mode=755 machine "$root/$name"; done
chmod 1777 "$root/tmp" "$root/var/tmp"
mkdir "$root/changed"
mount --bind "$at/upper" "$root/changed"
mkdir "$root/dev/pts" "$root/dev/shm" "$root/run/lock"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 machine "$root/dev/shm"
chmod 1777 "$root/run/lock"
for place in "$@"; do
    mkdir -p "$root$place"
    mount --bind "$place" "$root$place"
    mount -o remount,bind,ro "$root$place"
    while place=${place%/*}; [ -n "$place" ]; do chmod o+x "$root$place"; done
done
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for name in null zero full random urandom tty; do
    : > "$root/dev/$name"
    mount --bind "/dev/$name" "$root/dev/$name"
done
cd "$root"
mkdir outside
pivot_root . outside
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
umount -l /outside
rmdir /outside
mount --make-rshared /
units=/usr/lib/systemd/system
rm -rf /etc/systemd/system /etc/systemd/user /var/log/journal /var/lib/rwkvctl /etc/rwkvctl /var/cache/rwkvctl
rm -rf $units/sysinit.target.wants $units/timers.target.wants $units/local-fs.target.wants
mkdir -p /etc/systemd/system /etc/systemd/user $units/sysinit.target.wants
ln -s ../systemd-journald.service ../systemd-tmpfiles-setup.service $units/sysinit.target.wants
: > /etc/fstab
rm -f /etc/machine-id
echo 0123456789abcdef0123456789abcdef > /etc/machine-id
hostname machine
exec env -i container=test "PATH=$PATH" setpriv --bounding-set=-sys_module,-sys_time,-sys_boot \
    /lib/systemd/systemd --system --unit=basic.target --log-target=console --show-status=no
"""


def cgroup2() -> Path:
    """Our own cgroup of version 2, below which the machine gets one; a skip where the kernel has none."""
    inside = next((line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line[:3] == "0::"), "/")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith("cgroup2 "):
            root, point = left.split(" ")[3:5]
            return Path(point) / inside.removeprefix(root).lstrip("/")
    pytest.skip("needs cgroup v2: not mounted")


def need_systemd() -> None:
    """A skip that says what this machine lacks."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a machine of its own cannot be made")
    for program in (SYSTEMD, "unshare", "nsenter", "setpriv"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {Path(program).name}: not installed")


class Machine:
    """One running machine."""

    def __init__(self, folder: Path, places: list[Path]) -> None:
        """Boot below an empty folder. `places` of this machine are there as they are, and can be entered by all."""
        need_systemd()
        self.log = folder / "boot.log"
        self.cgroup = cgroup2() / f"rwkvctl-test-{os.getpid()}-{time.monotonic_ns()}"
        root = folder / "machine"
        root.mkdir()
        try:
            self.cgroup.mkdir()
        except OSError as error:
            pytest.skip(f"needs a cgroup of its own: {error.strerror}")
        enter = ["sh", "-ec", 'echo $$ > "$0"; exec "$@"', str(self.cgroup / "cgroup.procs")]
        keep = ["setpriv", "--pdeathsig=KILL", "unshare", "--kill-child", "--fork", *NAMESPACES]
        with self.log.open("wb") as log:
            self.keeper = subprocess.Popen(
                [*enter, *keep, "sh", "-c", BUILD, "sh", str(root), BASE, *map(str, places)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={"PATH": PATH},
            )  # fmt: skip
        self.init = 0
        try:
            wait_for(self._is_up, "the machine is up", self.said)
        except BaseException:
            self.close()
            raise

    def _is_up(self) -> bool:
        if self.keeper.poll() is not None:
            pytest.skip(f"needs namespaces for a machine of its own: {(self.said().splitlines() or ['?'])[-1]}")
        children = Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children").read_text().split()
        if not children or Path(f"/proc/{children[0]}/exe").readlink() != Path(SYSTEMD).resolve():
            return False
        self.init = int(children[0])
        return self.run("systemctl", "is-system-running", check=False).stdout.strip() in {"running", "degraded"}

    def said(self) -> str:
        """The end of what process 1 said."""
        return self.log.read_text(errors="replace")[-4000:]

    def run(self, *words: str, user: str = "", check: bool = True, **environ: str) -> subprocess.CompletedProcess[str]:
        """A command on the machine, as root or as one of its users."""
        base = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8"}
        who = []
        if user:
            who = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
            base |= {"HOME": f"/home/{user}", "USER": user, "LOGNAME": user}
        done = subprocess.run(
            ["nsenter", f"--target={self.init}", *NAMESPACES, *who, *words],
            env=base | environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT_S,
        )  # fmt: skip
        if check and done.returncode:
            pytest.fail(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.journal()}")
        return done

    def journal(self) -> str:
        """The end of the journal."""
        return self.run("journalctl", "--no-pager", "-n", "60", "-o", "cat", check=False).stdout[-8000:]

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", f"--property={name}", "--value", unit).stdout.strip()

    def path(self, inside: str) -> Path:
        """A file of the machine, as we see it."""
        return Path(f"/proc/{self.init}/root{inside}")

    def changed(self) -> set[str]:
        """What the machine has of its own: files that it has written or replaced, and those in its memory."""
        written = self.run("find", "/changed", "-xdev", "!", "-type", "c").stdout.replace("/changed", "").splitlines()
        held = self.run("find", "/run", "/tmp", "/var/tmp", "/dev/shm").stdout.splitlines()
        made = [
            path for path in written if not Path(path).is_dir()
        ]  # folders that it has from this one, it only opened
        return {path for path in [*made, *held] if not path.startswith(OWN)}

    def close(self) -> None:
        """End all of it."""
        self.keeper.kill()
        self.keeper.wait()
        for folder in [*sorted(self.cgroup.rglob("*"), reverse=True), self.cgroup]:
            if folder.is_dir():
                wait_for(lambda at=folder: removed(at), f"{folder} is empty")


def removed(folder: Path) -> bool:
    """Whether an empty cgroup is gone by now."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
