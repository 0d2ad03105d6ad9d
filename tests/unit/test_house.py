"""The house: no import circles, rooms that see what they may, folders that one can read through, SQL in one place."""

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "rwkvctl": ROOT, "rwkv_daemon": ROOT / "daemon", "rwkv_data": ROOT / "data", "rwkv_engine": ROOT / "engine",
    "rwkv_kernels": ROOT / "kernels", "rwkv_weights": ROOT / "weights",
}  # fmt: skip
FLOOR_1 = {"protocol", "settings", "http", "text"}
"""All that the node's packages may see of rwkvctl."""

DAEMON = (
    "pipeline | store_tools", "main", "recovery", "api.requests | api.requests.training", "api", "supervisor",
    "training", "training.feedback", "engines | planning",
    "periodic_tasks", "node", "notify", "compare | import_rwkv_skills | recipes", "jobs | runner", "logs | gpus",
    "gpus.zombies", "catalogue | harness", "samples | harness.outputs", "upkeep", "scheduling", "training.folders",
    "changes", "host | store.queries | store.queries.recipes | store.queries.training", "judge", "remote", "store",
    "workers", "rules",
)  # fmt: skip
"""The daemon's rooms, from the top down: a room imports what lies below it."""

DAEMON_BACK = {
    ("api", "api.requests"),  # the router names the functions that answer
    ("api", "api.requests.training"),
    ("gpus.zombies", "gpus"),  # zombies are looked for on the GPUs that the watch knows
    ("node", "api"),  # the node keeps what the api remembers of its answers
}
CONSOLE = (
    "keys_page", "app", "screens", "events | dispatch | recipes | terminal | watches", "jobs", "node", "scores",
    "screen", "shell", "tabs | console_app", "samples | logs", "options | daemon", "widgets",
)  # fmt: skip
"""The console's rooms, from the top down."""

CONSOLE_BACK = {
    ("console_app", "shell"),  # the type of the app, as its parts see it
    ("console_app", "jobs"),
    ("shell", "screens"),
    ("shell", "screen"),
    ("shell", "node"),
}

ONLY_IN = {
    "pynvml": r"rwkv_daemon\.gpus\.nvml_sampler",
    "aiosqlite": r"rwkv_daemon\.store\.(sqlite.*|beside)",
    "sqlite3": r"rwkv_daemon\.store\..*",
    "asyncpg": r"rwkv_daemon\.store\.postgres",
    "httpx": r"rwkv_daemon\.(remote\.http_client|notify\.webhook)"
    r"|rwkv_data\.prepare\.sources\.web",
    "h11": r"rwkvctl\.http\.server",
    "huggingface_hub": r"rwkv_data\.prepare\.sources\.hub|rwkv_data\.recipes\.hub\.dataset_repo"
    r"|rwkv_weights\.hub\.remote",
    "hf_xet": r"rwkv_weights\.hub\.xet",
    "torch": r"rwkv_(engine|kernels|weights)\..*",
    "triton": r"rwkv_kernels\.gpu\..*",
    "numpy": r"rwkv_(engine|kernels)\..*|rwkv_data\.recipes\.cleaning\..*",
    "llguidance": r"rwkv_engine\.constraints\..*",
    "pyrwkv_tokenizer": r"rwkv_engine\.tokenizer",
    "textual": r"rwkvctl\.tui\..*",
    "rich": r"rwkvctl\.tui\..*",
    "textual_serve": r"rwkvctl\.tui\.terminal\.browser_server",
    "aiohttp": r"rwkvctl\.tui\.terminal\.browser_server",
    "aiohttp_jinja2": r"rwkvctl\.tui\.terminal\.browser_server",
    "sympy": r"rwkv_data\.graders\.maths\..*",
    "latex2sympy2_extended": r"rwkv_data\.graders\.maths\.worker\..*",
    "math_verify": r"rwkv_data\.graders\.maths\.worker\..*",
    "langdetect": r"rwkv_data\.instructions\.language",
    "syllapy": r"rwkv_data\.instructions\.ifbench_words",
    "sacrebleu": r"rwkv_data\.graders\.translation",
    "datasets": r"rwkv_data\.prepare\.sources\.column_rows",
    "pyarrow": r"rwkv_data\.prepare\.sources\.column_rows|rwkv_data\.recipes\.cleaning\.(word_table|problem_file)"
    r"|rwkv_data\.recipes\.files\.parquet_folder",
    "msgspec": r".*",
}
"""Every library that the product imports, and the modules that may: what is not here may not be imported at all."""

STANDARD = sys.stdlib_module_names | {"_typeshed"}

INSTALLED = {
    "rwkvctl": {"", "serve"}, "rwkv_daemon": {"", "daemon", "postgres"}, "rwkv_data": {"", "daemon"},
    "rwkv_engine": {"", "engine"}, "rwkv_kernels": {"", "engine", "gpu"}, "rwkv_weights": {"", "engine"},
}  # fmt: skip
"""The extras of pyproject.toml whose libraries a package may import; "" is what is always installed."""

PURE = {
    "bisect", "collections", "collections.abc", "dataclasses", "difflib", "enum", "fnmatch", "hashlib", "heapq",
    "itertools", "json", "math", "msgspec", "pathlib", "random", "re", "rwkv_weights.local", "signal", "types",
    "typing", "zlib",
}  # fmt: skip
"""What `rwkv_daemon.rules` may import besides the protocol and itself: nothing that waits, reads or asks the time."""

MOST_MODULES = 24
CATALOGUES = {"rwkv_data/benchmarks", "rwkvctl/cli/commands", "rwkvctl/tui/screens"}
"""Folders of like things, which may be longer."""

COMPOSERS = re.compile(r"rwkv_daemon\.(main|node|supervisor|recovery|periodic_tasks|api(\..*)?)")
"""Who may name `Node`: everybody else takes the parts that it touches."""

SHARED_CLASS_NAMES = {
    "rwkvctl.Column": "a column of a table, for a pipe and for the screen",
    "rwkv_engine.Block": "the weights of a layer, on the CPU and on a GPU",
    "rwkv_engine.SavedState": "a state outside the pool, on the CPU and on a GPU",
    "rwkv_engine.Weights": "the weights of a model, on the CPU and on a GPU",
}
"""Names that several classes of one package have, with the reason; every other one is used once."""

VAGUE = {"Finding", "Found", "Held", "Known", "Look", "Outcome", "Place", "Said", "Told", "Verdict", "Wanted"}
"""Names of classes that do not say of what."""

SQL = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|CREATE (TABLE|INDEX)|PRAGMA)\b")


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the product, parsed."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted((folder / package).rglob("*.py")):
            name = ".".join(path.relative_to(folder).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = ast.parse(path.read_bytes())
    return found


@cache
def imports() -> dict[str, set[str]]:
    """The modules of ours that each module imports, wherever and for whatever: those for type checkers alone, too."""
    return {name: set(imported(tree)) - {name} for name, tree in modules().items()}


def imported_names(tree: ast.Module) -> Iterator[str]:
    """Every module that import statements name, of whomever."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules of ours that are named by a module's import statements."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield from (name for name in ([inner] if inner in modules() else [node.module]) if name in modules())


def test_no_module_is_in_an_import_circle() -> None:
    left = imports()
    while leaves := {name for name, needs in left.items() if not needs & left.keys()}:
        left = {name: needs for name, needs in left.items() if name not in leaves}
    while tops := left.keys() - set().union(*left.values()):
        left = {name: needs for name, needs in left.items() if name not in tops}
    assert not left, f"these import each other in a circle: {sorted(left)}"


def test_the_node_sees_floor_1_of_rwkvctl_alone() -> None:
    seen = {
        (name, other)
        for name, others in imports().items()
        for other in others
        if other.startswith("rwkvctl.") and other.split(".")[1] not in FLOOR_1
        if not name.startswith("rwkvctl") or name.split(".")[1:2] in [[floor] for floor in FLOOR_1]
    }
    assert not seen


@pytest.mark.parametrize(
    ("package", "floors", "back"),
    [("rwkv_daemon", DAEMON, DAEMON_BACK), ("rwkvctl.tui", CONSOLE, CONSOLE_BACK)],
)
def test_a_room_sees_the_rooms_below_it(package: str, floors: tuple[str, ...], back: set[tuple[str, str]]) -> None:
    """Rooms of one floor do not see each other. Each arrow that points up is known and has its reason."""
    height = {room: -floor for floor, rooms in enumerate(floors) for room in rooms.split(" | ")}
    arrows = {
        (room_of(name, package), room_of(other, package))
        for name, others in imports().items()
        for other in others
        if name.startswith(f"{package}.") and other.startswith(f"{package}.") and not name.endswith("__main__")
    }
    up = {(room, other) for room, other in arrows if room != other and height[room] <= height[other]}
    assert up == back


def room_of(name: str, package: str) -> str:
    """The folder in which a module lies, as seen from its package; a module that lies in no folder is its own room."""
    inner = name.removeprefix(f"{package}.")
    if (PACKAGES[name.split(".", maxsplit=1)[0]] / name.replace(".", "/")).is_dir() or "." not in inner:
        return inner
    return inner.rsplit(".", 1)[0]


def test_a_library_is_imported_where_it_may_be() -> None:
    assert not {
        (name, library)
        for name, tree in modules().items()
        for library in libraries(tree)
        if library in ONLY_IN or library not in STANDARD
        if not re.fullmatch(ONLY_IN.get(library, r"(?!)"), name)
    }


def libraries(tree: ast.Module) -> set[str]:
    """The top-level names of all libraries that a module imports, those of `import_module("...")` included."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    given = (call.args[0] for call in calls if ast.unparse(call.func).endswith("import_module"))
    names = {*imported_names(tree), *(str(name.value) for name in given if isinstance(name, ast.Constant))}
    return {name.split(".")[0] for name in names} - PACKAGES.keys()


@cache
def declared() -> dict[str, set[str]]:
    """The distributions of each extra of pyproject.toml, without those for developers; "" has what always comes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    names = {extra: {re.split(r"[^\w.-]", line)[0] for line in lines} for extra, lines in extras.items()}
    return {extra: set(map(normal, found)) for extra, found in names.items() if extra != "dev"}


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


installed = cache(packages_distributions)


def distributions(library: str) -> set[str]:
    """The distributions that hold a library; one that is not installed is taken to be called like it."""
    return set(map(normal, installed().get(library, [library])))


def test_a_library_that_is_imported_is_declared_where_its_importer_is_installed() -> None:
    assert not {
        (name, library)
        for name, tree in modules().items()
        for library in libraries(tree) - STANDARD
        if not distributions(library) & set().union(*(declared()[extra] for extra in INSTALLED[name.split(".")[0]]))
    }


def test_a_distribution_that_is_declared_is_imported() -> None:
    """What nothing imports by itself may lie in the extra for developers only."""
    libraries_of_all = set().union(*map(libraries, modules().values())) - STANDARD
    unused = set().union(*declared().values()).difference(*map(distributions, libraries_of_all))
    assert not unused


def test_rules_are_pure() -> None:
    assert not {
        (name, other)
        for name, tree in modules().items()
        if name.startswith("rwkv_daemon.rules")
        for other in imported_names(tree)
        if other not in PURE and not other.startswith(("rwkv_daemon.rules", "rwkvctl.protocol"))
    }


def test_a_folder_can_be_read_through() -> None:
    folders: dict[str, int] = {}
    for package, folder in PACKAGES.items():
        for path in (folder / package).rglob("*.py"):
            place = path.parent.relative_to(folder).as_posix()
            folders[place] = folders.get(place, 0) + 1
    assert not {place: count for place, count in folders.items() if count > MOST_MODULES and place not in CATALOGUES}


def test_only_composers_name_the_whole_node() -> None:
    named = {name for name, others in imports().items() if "rwkv_daemon.node" in others}
    assert not {name for name in named if not COMPOSERS.fullmatch(name)}


def test_a_program_on_the_store_does_not_import_the_daemon() -> None:
    """It would take three times as long to start."""
    reached, left = set[str](), {"rwkv_daemon.store_tools.main"}
    while left:
        reached |= left
        left = {needed for name in left for needed in imports().get(name, ())} - reached
    assert len(reached) > 20
    assert not reached & {"rwkv_daemon.main", "rwkv_daemon.node"}


def test_sql_is_written_in_the_store() -> None:
    assert not {
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        if not name.startswith("rwkv_daemon.store.")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SQL.match(node.value)
    }


def test_an_interpreter_is_started_so_that_it_imports_nothing_from_the_working_folder() -> None:
    """An operator may stand in a folder where somebody else has laid an `asyncio.py`."""
    assert not {
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call | ast.Tuple | ast.List)
        for before, after in pairwise(node.args if isinstance(node, ast.Call) else node.elts)
        if ast.unparse(before) in {"sys.executable", "python"}
        if not (isinstance(after, ast.Constant) and after.value in {"-P", "-I"})
    }


def test_a_class_has_a_name_of_its_own_that_says_of_what() -> None:
    """A reader who meets a name knows which class it is."""
    defined = Counter(
        f"{name.split('.')[0]}.{node.name}"
        for name, tree in modules().items()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, times in defined.items() if times > 1} == SHARED_CLASS_NAMES.keys()
    assert not {name for name in defined if name.split(".")[1] in VAGUE}


def test_unit_tests_lie_as_what_they_test() -> None:
    """The folders of unit tests are those of the product: tests/unit/daemon/rules for daemon/rwkv_daemon/rules."""
    unit = ROOT / "tests" / "unit"
    packages = {name.removeprefix("rwkv_"): top / name for name, top in PACKAGES.items()}
    folders = {path.parent.relative_to(unit).parts for path in unit.rglob("test_*.py")} - {()}
    assert not {parts for parts in folders if not packages[parts[0]].joinpath(*parts[1:]).is_dir()}


def names_in(module: str) -> set[str]:
    """What can be imported from a module: what it defines, what it imports, and the modules below it."""
    found = {name.removeprefix(f"{module}.") for name in modules() if name.startswith(f"{module}.")}
    for node in modules()[module].body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        else:
            found |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
            found |= {getattr(node, "name", "")}
    return found


def test_scripts_and_documents_name_modules_that_are_there() -> None:
    """No type checker reads the Python in a shell script or in a document."""
    texts = [ROOT / "Makefile", *(ROOT / "bench").glob("*.sh"), *(ROOT / "scripts").glob("*"), *ROOT.glob("*.md")]
    texts += [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*/README.md"), *(ROOT / "daemon/systemd").rglob("*.service")]
    wrong, ours = set(), "|".join(PACKAGES)
    for path in texts:
        text = path.read_text(encoding="utf-8")
        for module in re.findall(rf"-m ((?:{ours})[\w.]*)", text):
            if not {module, f"{module}.__main__"} & modules().keys():
                wrong.add((path.name, module))
        for module, names in re.findall(rf"from ((?:{ours})[\w.]*) import ([\w, ]+)", text):
            if module not in modules() or not {name.split()[0] for name in names.split(",")} <= names_in(module):
                wrong.add((path.name, f"{module}: {names}"))
    assert not wrong
