"""A sandbox with small limits, and checks that a program has done no harm outside it."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from leftovers import shared

from rwkv_data.sandbox import Limits, ProgramOutcome, Sandbox
from rwkv_data.sandbox.isolation_check import available

DRIVERS = "rwkv_data.graders.code.drivers"
SMALL = Limits(cpu_s=1.0, wall_s=2.0, memory_mb=256, workspace_mb=8, output_mb=4)
ADD = {"before": "", "tests": ["assert add(2, 3) == 5"], "functions": ["add"]}


CORPORA = {"hostile": "hostile_programs.txt", "forgery": "forgeries.txt", "search": "searches.txt"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `hostile`, `forgery` or `search` gets every (heading, code) of that text file."""
    for fixture, name in CORPORA.items():
        if fixture in metafunc.fixturenames:
            found = sections(Path(__file__).with_name(name))
            metafunc.parametrize(fixture, found, ids=[heading.partition(" |")[0] for heading, _ in found])


def sections(path: Path) -> list[tuple[str, str]]:
    """Return the text under each heading (`=== heading`) of a file."""
    parts = path.read_text().split("\n=== ")[1:]
    return [
        (heading, code.strip("\n").replace("<NUL>", "\0")) for heading, _, code in (p.partition("\n") for p in parts)
    ]


def children(pid: int) -> list[int]:
    """Return every descendant of a process, from /proc."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            child = int(status.parent.name)
            found += [child, *children(child)]
    return found


@dataclass
class Box:
    """A sandbox under test: runs hostile programs, then checks the host and runs an innocent program."""

    sandbox: Sandbox
    mark: str = field(default_factory=lambda: f"hostile-{uuid.uuid4().hex}")

    def script(self, code: str, standard_input: str = "", limits: Limits = SMALL) -> ProgramOutcome:
        """Run a program that may use MARK, and check that nothing of it is left."""
        outcome = self.sandbox.script(f"MARK = {self.mark!r}\n{code}", standard_input, limits=limits)
        self.prove_unharmed()
        return outcome

    def check(self, code: str, data: object = ADD, limits: Limits = SMALL) -> ProgramOutcome:
        """Let tests call functions of a program, and check that nothing of it is left."""
        outcome = self.sandbox.check(code, f"{DRIVERS}:assertions", data, limits=limits)
        self.prove_unharmed()
        return outcome

    def prove_unharmed(self) -> None:
        """Check that no process but the zygote and no file with the mark is left, and that the next program works."""
        launcher = self.sandbox._process
        assert launcher is not None
        assert launcher.poll() is None
        assert len(children(launcher.pid)) == 1, "a process is left"
        for folder in ("/tmp", "/dev/shm", "/var/tmp", str(Path.home())):
            assert not [path for path in Path(folder).iterdir() if self.mark in path.name], (
                f"a file is left in {folder}"
            )
        innocent = self.sandbox.script("import os\nprint(input(), os.listdir('.'))", "hello", limits=SMALL)
        assert (innocent.status, innocent.output) == ("passed", "hello []\n"), innocent


@pytest.fixture(scope="module")
def opened() -> Iterator[Sandbox]:
    """One sandbox for a whole file: a program's harm would show in the next."""
    trouble = available()
    if trouble:
        pytest.skip(f"needs namespaces: {trouble}")
    with shared("sandbox/launcher.py"), Sandbox(SMALL, drivers=(DRIVERS,)) as sandbox:
        yield sandbox


@pytest.fixture
def box(opened: Sandbox) -> Box:
    """The sandbox with a mark of its own for every test."""
    return Box(opened)


@pytest.fixture
def process_children() -> Callable[[int], list[int]]:
    """The function, for tests that cannot import this file."""
    return children
