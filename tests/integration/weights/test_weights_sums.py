"""sha256 of files: of several writers at once, and as the shell's own tool has it."""

import subprocess
import sys
from pathlib import Path

from waiting import LIMIT_S

from rwkv_weights.local import inventory
from rwkv_weights.local.checkpoint_files import FileIdentity, hash_file
from rwkv_weights.local.sha256_cache import Sums


def file(path: Path, content: bytes = b"abc") -> Path:
    path.write_bytes(content)
    return path


def test_writers_do_not_lose_each_others_sums(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from rwkv_weights.local.sha256_cache import Sums\n"
        "from rwkv_weights.local.checkpoint_files import *\n"
        "for i in range(15):\n"
        " p = Path(sys.argv[1]) / f'{sys.argv[2]}-{i}'; p.write_bytes(b'x')\n"
        " h = hash_file(p); Sums(Path(sys.argv[1]) / 'cache').remember(p, h.identity, h.sha256)\n"
    )
    several = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(n)]) for n in range(4)]
    assert [process.wait(LIMIT_S) for process in several] == [0] * 4
    assert len(Sums(tmp_path / "cache").known()) == 60
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [
        "weights-sha256.json",
        "weights-sha256.lock",
    ]


def test_several_files_have_the_sum_that_sha256sum_gives(tmp_path: Path) -> None:
    for name in ("model-1.safetensors", "model-2.safetensors"):
        file(tmp_path / name, name.encode())
    found = inventory.at(tmp_path)
    shell = "sha256sum *.safetensors | sha256sum"
    wanted = subprocess.run(["sh", "-c", shell], cwd=tmp_path, capture_output=True, text=True, check=True).stdout[:64]
    known = {FileIdentity.of(one): hash_file(one).sha256 for one in found.files}
    assert inventory.sha256_of(found, known) == wanted
    known.popitem()
    assert inventory.sha256_of(found, known) == ""
