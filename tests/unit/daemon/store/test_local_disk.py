"""Which file system a folder lies on, from the kernel's table of mounts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.store.interface import StoreDamagedError
from rwkv_daemon.store.local_disk import check_local, file_system

TABLE = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:44 / /home rw - nfs4 server:/home rw,vers=4.2
31 30 0:45 / /home/lab\040disk rw shared:9 master:2 - xfs /dev/vdb rw
32 22 0:46 / /mnt rw - ext4 /dev/vdc rw
33 32 0:47 / /mnt rw - fuse.sshfs host: rw
torn line
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib/rwkvctl", "ext4"),
        ("/home/me/x", "nfs4"),
        ("/home/lab disk/h", "xfs"),
        ("/homes", "ext4"),
        ("/mnt/h", "fuse.sshfs"),
    ],
)
def test_the_deepest_and_last_mount_counts(folder: str, kind: str) -> None:
    assert file_system(TABLE, Path(folder)) == kind


def test_a_network_file_system_is_refused_with_what_to_do(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 0 0:1 / {tmp_path.resolve()} rw - nfs4 s:/ rw\n")
    with pytest.raises(StoreDamagedError, match=r"network file system \(nfs4\).*RWKVCTL_HOME"):
        check_local(tmp_path / "store.sqlite", mounts)
    check_local(tmp_path / "store.sqlite", tmp_path / "nothing")


@given(st.text() | st.lists(st.sampled_from(["1", " ", "/", "\\", "040", "- nfs4", "\n", "777"])).map("".join))
def test_any_table_is_read(table: str) -> None:
    assert isinstance(file_system(table, Path("/a")), str)


def test_a_mount_point_that_seems_to_end_its_line_is_one_mount(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    for end in ("\r", "\x85", "\u2028"):
        table.write_bytes(
            f"22 1 254:0 / / rw - ext4 /dev/vda rw\n9 22 0:1 / /a{end}33 22 0:2 / {tmp_path} rw - nfs4 x rw\n".encode()
        )
        check_local(tmp_path / "store.sqlite", table)
