"""What every test room shares: slow parts, the order, what a test may leave behind, and the last lines, which say what
was left out and why."""

import ast
import contextlib
import functools
import gc
import os
import random
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import leftovers
import pytest
import slow_parts

# All that is imported and collected stays until the end: looking through it for garbage again and again, while it grows
# and in every test, was half of the time of collecting. Frozen once it is there; see `pytest_collection_finish`.
gc.disable()


def uninterrupted(parse: Callable[..., Any]) -> Callable[..., Any]:
    """A parse in which no garbage is collected: before Python 3.13 one fails ("recursion depth mismatch") if what is
    collected meanwhile parses, too (python/cpython#106905). Triton's interpreter parses every kernel."""

    @functools.wraps(parse)
    def parsed(*arguments: Any, **more: Any) -> Any:
        collects = gc.isenabled()
        gc.disable()
        try:
            return parse(*arguments, **more)
        finally:
            if collects:
                gc.enable()

    return parsed


ast.parse = uninterrupted(ast.parse)
if not Path("/dev/nvidia0").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported: kernels then run on the CPU
# whoever starts us in the background of a shell ignores it for us, and so for every program that a test interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)
with contextlib.suppress(ImportError):  # a machine with a GPU has not all that development needs
    from hypothesis import settings

    settings.register_profile("steady", max_examples=50, derandomize=True, deadline=None)
    settings.register_profile("wide", max_examples=2000, deadline=None)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
ROOT = Path(__file__).resolve().parent.parent
MISSING: Counter[str] = Counter()
OUTCOMES: list[pytest.TestReport] = []
SLOW = "slow part"
ENDED = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
"""A run that came to its end: a slow part of it has passed even where another test was red."""
PARTS = pytest.StashKey[dict[str, slow_parts.Part]]()
LEFT_OUT = pytest.StashKey[dict[str, int]]()
RECORDED = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session")
def real_rows() -> Path:
    """The folder of real benchmark rows, or a skip that says where it was looked for."""
    folder = Path(os.environ.get("RWKVCTL_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"needs real rows: no folder {folder} (set RWKVCTL_TEST_DATA)")
    return folder


def need_program(name: str) -> str:
    """The path of a program, or a skip that names it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"needs {name}: not installed")
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow", choices=("changed", "all", "none"), default="changed",
        help="slow parts: those whose files have changed since they passed (default), all, or none",
    )  # fmt: skip
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="run modules, and the tests of each, in a random order"
    )


OF_COMPILING = ("ignore:invalid escape sequence:DeprecationWarning", "ignore::SyntaxWarning")
"""What Python says of a source that it compiles. A library is compiled in whichever test imports it first; of our own
sources ruff says it."""


def pytest_configure(config: pytest.Config) -> None:
    for warning in OF_COMPILING:
        config.addinivalue_line("filterwarnings", warning)
    config.stash[PARTS] = slow_parts.table()
    config.stash[LEFT_OUT] = {}


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("--shuffle")
    return None if seed is None else f"in random order: --shuffle={seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow parts that have passed as they are; shuffle, or begin with files that hold long tests."""
    parts, wanted, passed = config.stash[PARTS], config.getoption("--slow"), slow_parts.passed()
    slow: dict[str, list[pytest.Item]] = {}
    for item in items:
        if (mark := item.get_closest_marker("slow")) is not None:
            if not mark.args or mark.args[0] not in parts:
                raise pytest.UsageError(f"{item.nodeid}: slow() wants the name of a part of tests/slow_parts.toml")
            name = mark.args[0]
            slow.setdefault(name, []).append(item)
            parts[name].tests.add(item.path)
            parts[name].cases += 1
            item.user_properties.append((SLOW, name))
    for name, tests in slow.items():
        if wanted == "none" or (wanted == "changed" and passed.get(name) == parts[name].state):
            config.stash[LEFT_OUT][name] = len(tests)
    out = [item for name in config.stash[LEFT_OUT] for item in slow[name]]
    if out:
        config.hook.pytest_deselected(items=out)
        dropped = set(out)
        items[:] = [item for item in items if item not in dropped]
    if (seed := config.getoption("--shuffle")) is not None:
        shuffle(items, random.Random(seed))
    else:
        long = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in long)  # begun last, one of them would run alone for minutes


def shuffle(items: list[pytest.Item], drawn: random.Random) -> None:
    """In place: the order of modules, and the order within each, so that what a module shares is made once."""
    modules: dict[Path, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.path, []).append(item)
    order = list(modules)
    drawn.shuffle(order)
    for path in order:
        drawn.shuffle(modules[path])
    items[:] = [item for path in order for item in modules[path]]


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder() -> Iterator[None]:
    """Temporary files of each test process lie in a folder of its own, under a short name: sockets may lie in it."""
    before = tempfile.gettempdir()
    with tempfile.TemporaryDirectory(prefix="rt-", dir=before, ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        yield
        os.environ["TMPDIR"] = tempfile.tempdir = before


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest, own_temporary_folder: None) -> Iterator[None]:
    """No process, listening socket or file of a test outlives it. Unit tests may not make any."""
    if "unit" in request.path.relative_to(ROOT).parts:
        yield
        return
    folder: Path = request.getfixturevalue("tmp_path")
    before = leftovers.look()
    yield
    if found := leftovers.left(before, folder, folder.parent):
        pytest.fail(f"{request.node.nodeid} left behind: {'; '.join(found)}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if any(name == SLOW for name, _ in report.user_properties):
        OUTCOMES.append(report)
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith("needs "):
            MISSING[reason.removeprefix("needs ").split(":")[0]] += 1


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker left out, and how many cases it knows: all of them know the same."""
    left_out, cases = getattr(node, "workeroutput", {}).get(SLOW, ({}, {}))
    node.config.stash[LEFT_OUT].update(left_out)
    for name, count in cases.items():
        node.config.stash[PARTS][name].cases = count


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config, parts = session.config, session.config.stash[PARTS]
    if hasattr(config, "workeroutput"):
        config.workeroutput[SLOW] = config.stash[LEFT_OUT], {name: part.cases for name, part in parts.items()}
    elif exitstatus in ENDED and config.args_source is pytest.Config.ArgsSource.TESTPATHS and not narrowed(config):
        config.stash[RECORDED] = slow_parts.record(outcomes_of(parts))


def narrowed(config: pytest.Config) -> bool:
    """Whether only some tests were asked for."""
    return any(config.getoption(name, None) for name in ("keyword", "markexpr", "lf", "deselect", "ignore"))


def outcomes_of(parts: dict[str, slow_parts.Part]) -> list[slow_parts.Part]:
    """The parts with what this run showed."""
    for report in OUTCOMES:
        part = parts[str(dict(report.user_properties)[SLOW])]
        part.tests.add(ROOT / report.nodeid.partition("::")[0])
        part.passed += report.when == "call" and report.passed
        part.want_gpu += report.skipped and "needs a GPU" in str(report.longrepr)
        part.passed -= report.when == "teardown" and report.failed
    return list(parts.values())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if MISSING:
        wants = ", ".join(f"{name} ({count})" for name, count in sorted(MISSING.items()))
        terminalreporter.write_line(f"skipped for want of: {wants}")
    if left := config.stash[LEFT_OUT]:
        parts = ", ".join(f"{name} ({count} tests)" for name, count in sorted(left.items()))
        why = (
            "nothing they depend on has changed since they passed"
            if config.getoption("--slow") == "changed"
            else "asked"
        )
        terminalreporter.write_line(f"left out: {parts}: {why}; `make test-all` runs them")
    if new := config.stash.get(RECORDED, []):
        terminalreporter.write_line(f"recorded as passed, commit tests/slow_passed.json: {', '.join(sorted(new))}")
