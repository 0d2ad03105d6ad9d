"""A training run as a watched folder sees it: checkpoints that are written in every way in which they are written."""

import os
import random
import zipfile
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path


def content(number: int, right: int | None = None) -> bytes:
    """The bytes of a checkpoint that is none of the others; the stub engine has so many of 256 sums right."""
    found = BytesIO(builtin_checkpoint_path().read_bytes())
    with zipfile.ZipFile(found, "a") as archive:
        skill = "" if right is None else f" right {right}"
        archive.comment = f"checkpoint {number}{skill}".encode()
    return found.getvalue()


@dataclass
class TrainingRun:
    """Writes checkpoints into a folder. `whole`: the contents that came to stand still there under their names, by
    number; `gone`: those that were deleted or written over, which may have been measured or not; `before`: what each
    name had."""

    folder: Path
    seed: int = 1
    whole: dict[str, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    before: dict[str, list[int]] = field(default_factory=dict)
    written: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.folder.mkdir(parents=True, exist_ok=True)

    def write(self, name: str, number: int | None = None, *, right: int | None = None) -> Path:
        """Write a checkpoint at once; `right`: as in `content`."""
        path = self.folder / name
        path.write_bytes(content(self.next_number() if number is None else number, right))
        self.now_is(name, self.written if number is None else number)
        return path

    def begin(self, name: str) -> Path:
        """Write the first half of a checkpoint; `finish` writes the rest."""
        path, bytes_of_it = self.folder / name, content(self.next_number())
        path.write_bytes(bytes_of_it[: len(bytes_of_it) // 2])
        return path

    def finish(self, path: Path) -> None:
        bytes_of_it = content(self.written)
        with path.open("ab") as file:
            file.write(bytes_of_it[len(bytes_of_it) // 2 :])
        self.now_is(path.name, self.written)

    def write_by_rename(self, name: str) -> None:
        new = self.folder / f"{name}.tmp"
        new.write_bytes(content(self.next_number()))
        new.replace(self.folder / name)
        self.now_is(name, self.written)

    def delete(self, name: str) -> None:
        (self.folder / name).unlink()
        self.gone.add(self.whole.pop(name))

    def touch(self, name: str) -> None:
        """Change the times of a file, and not its content."""
        (self.folder / name).chmod(0o600)
        os.utime(self.folder / name)

    def next_number(self) -> int:
        self.written += 1
        return self.written

    def now_is(self, name: str, number: int) -> None:
        if name in self.whole and self.whole[name] != number:
            self.gone.add(self.whole[name])
            self.before.setdefault(name, []).append(self.whole[name])
        self.whole[name] = number

    def act(self) -> None:
        """Do one of the things that training runs do."""
        act = self.dice.choice(["write", "rename", "slow", "again", "back", "truncate", "copy", "touch", "delete"])
        some = self.dice.choice(sorted(self.whole)) if self.whole else ""
        name = f"rwkv-{self.written + 1}.pth"
        if act == "rename":
            self.write_by_rename(name)
        elif act == "slow":
            self.finish(self.begin(name))
        elif act == "again" and some:
            self.write(some)
        elif act == "back" and self.before.get(some):
            self.write(some, number=self.dice.choice(self.before[some]))
        elif act == "truncate" and some:
            os.truncate(self.folder / some, 1000)
            self.finish_anew(some)
        elif act == "copy" and some:
            (self.folder / f"copy-of-{some}").write_bytes((self.folder / some).read_bytes())
        elif act == "touch" and some:
            self.touch(some)
        elif act == "delete" and some and self.dice.random() < 0.5:
            self.delete(some)
        else:
            self.write(name)

    def finish_anew(self, name: str) -> None:
        """Write another checkpoint over one that was cut off."""
        self.write(name)
