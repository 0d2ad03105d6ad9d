"""The registry of verbs: one typed function is one verb.

`rwkvctl.cli.commands` holds a file for each first word of the command line, found by its name (a word of Python's has
`_` behind it: `import_.py`; `job_log.py` holds `job-log`). In it, `@verb` registers a
function: `data_prepare` is the verb `data prepare`. Parameters before `*` are arguments, those after it are flags
(`list[str]` takes several values, `bool` is a switch, no default means required), and a dataclass stands for the flags
that its fields describe. The docstring is the help: its first line the summary, a line `name: text` the help of one
parameter, a line starting with `$` an example; a help that ends in `(-f)` gives the
flag other spellings, one that ends in `[2]` what the flag means without a value. The returned value is the exit code.

The argument parser, the shell completion, `docs/verbs.md` and the console's palette all read this registry.
"""

import dataclasses
import importlib
import inspect
import os
import re
from collections.abc import Callable, Container
from keyword import iskeyword
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

COMMANDS: Final = "rwkvctl.cli.commands"
HELP_LINE: Final = re.compile(r"(\w+): (.+)")
ALONE: Final = re.compile(r"\[(\w+)\]$")
OTHERS: Final = re.compile(r"\(((?:--?\w[\w-]*(?:, )?)+)\)$")


class Option(NamedTuple):
    """One argument or flag of a verb."""

    name: str
    flags: tuple[str, ...]
    kind: Callable[[str], object] | None
    many: bool
    required: bool
    default: Any
    choices: tuple[str, ...]
    help: str
    group: type[Any] | None = None
    alone: str = ""


class Verb(NamedTuple):
    """A verb: its words, its function, and its docstring. A `passed` verb passes its arguments on unparsed."""

    words: str
    run: Callable[..., int]
    summary: str
    text: str
    examples: tuple[str, ...]
    helps: dict[str, str]
    passed: bool

    @property
    def options(self) -> list[Option]:
        """Its arguments and flags in order of declaration."""
        found: list[Option] = []
        for parameter in list(inspect.signature(self.run).parameters.values())[1:]:
            kind: Any = parameter.annotation
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                found += field_options(kind)
            else:
                found.append(parameter_option(parameter, self.helps))
        return found

    @property
    def parameters(self) -> dict[Any, str]:
        """The names of the function's parameters, by their annotations."""
        return {one.annotation: one.name for one in inspect.signature(self.run).parameters.values()}


REGISTRY: Final[dict[str, Verb]] = {}


def verb(function: Callable[..., int]) -> Callable[..., int]:
    """Register a function as the verb its name spells; a second one of the same name is an error."""
    return register(function, passed=False)


def passed_verb(function: Callable[..., int]) -> Callable[..., int]:
    """Register a verb that gets the rest of the command line unread, for a process that has its own flags."""
    return register(function, passed=True)


def register(function: Callable[..., int], *, passed: bool) -> Callable[..., int]:
    """Add a function to the registry as a verb and return it. Raises ValueError if another function has its name."""
    words = words_of(function)
    if words in REGISTRY:
        raise ValueError(f"two functions are the verb '{words}'")
    summary, text, examples, helps = read_docstring(
        inspect.getdoc(function) or "", inspect.signature(function).parameters
    )
    REGISTRY[words] = Verb(words, function, summary, text, examples, helps, passed)
    return function


def words_of(function: Callable[..., int]) -> str:
    """The words that a function's name spells. The first one is its file's name, where `_` stands for `-`."""
    name, file = function.__name__.strip("_"), function.__module__.rpartition(".")[2].strip("_")
    if "_" not in file or not name.startswith(file):
        return name.replace("_", " ")
    return file.replace("_", "-") + name.removeprefix(file).replace("_", " ")


def read_docstring(doc: str, parameters: Container[str]) -> tuple[str, str, tuple[str, ...], dict[str, str]]:
    """Summary, text, examples and the help of each parameter. A word before a colon that names none is text."""
    summary, _, rest = doc.partition("\n")
    text: list[str] = []
    examples: list[str] = []
    helps: dict[str, str] = {}
    for line in rest.split("\n"):
        if line.startswith("$ "):
            examples.append(line[2:])
        elif (match := HELP_LINE.fullmatch(line)) and match[1] in parameters:
            helps[match[1]] = match[2]
        else:
            text.append(line)
    return summary, "\n".join(text).strip(), tuple(examples), helps


def option(default: Any, help_text: str, *aliases: str) -> Any:
    """A field of a dataclass of flags; `aliases` are further spellings, and the field's own name comes first."""
    metadata = {"help": help_text, "aliases": aliases}
    if isinstance(default, list):
        return dataclasses.field(default_factory=list, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def field_options(group: type[Any]) -> list[Option]:
    """The flags that a dataclass of flags stands for."""
    return [
        Option(
            field.name,
            (flag(field.name), *field.metadata["aliases"]),
            *reading(field.type),
            False,
            [] if field.default is dataclasses.MISSING else field.default,
            choices_of(field.type),
            field.metadata["help"],
            group,
        )
        for field in dataclasses.fields(group)
    ]


def parameter_option(parameter: inspect.Parameter, helps: dict[str, str]) -> Option:
    """The argument or flag that one parameter stands for."""
    bare = parameter.default is inspect.Parameter.empty
    said = OTHERS.search(helps.get(parameter.name, ""))
    others = tuple(said[1].split(", ")) if said else ()
    flags = (flag(parameter.name), *others) if parameter.kind is inspect.Parameter.KEYWORD_ONLY else ()
    kind, many = reading(parameter.annotation)
    default = None if bare else parameter.default
    name = parameter.name
    words = helps.get(name, "")
    alone = found[1] if (found := ALONE.search(words)) else ""
    return Option(name, flags, kind, many, bare, default, choices_of(parameter.annotation), words, alone=alone)


def flag(name: str) -> str:
    """`max_param_b` as `--max-param-b`; a trailing underscore only avoids a word of Python's."""
    return "--" + name.strip("_").replace("_", "-")


def reading(annotation: Any) -> tuple[Callable[[str], object] | None, bool]:
    """How a value is read (None: a switch) and whether there may be several."""
    kind = without_none(annotation)
    if get_origin(kind) is list:
        return get_args(kind)[0], True
    if get_origin(kind) is Literal:
        return str, False
    return (None if kind is bool else kind), False


def choices_of(annotation: Any) -> tuple[str, ...]:
    """Return the values of a Literal, or of a list of one; empty for any other type."""
    kind = without_none(annotation)
    if get_origin(kind) is list:
        kind = get_args(kind)[0]
    return get_args(kind) if get_origin(kind) is Literal else ()


def without_none(annotation: Any) -> Any:
    """Return `X` of `X | None`; any other type unchanged."""
    if get_origin(annotation) in {UnionType, Union}:
        return next(part for part in get_args(annotation) if part is not NoneType)
    return annotation


def first_words() -> list[str]:
    """The first word of every verb: the names of the files in `rwkvctl/cli/commands`, without importing one."""
    folder = os.path.join(os.path.dirname(__file__), "commands")  # noqa: PTH118, PTH120 - pathlib is slower
    files = os.listdir(folder)  # noqa: PTH208 - likewise
    found = (name[:-3] for name in files if name.endswith(".py") and not name.startswith("_"))
    return sorted(name.rstrip("_").replace("_", "-") for name in found)


def load(first: str) -> list[Verb]:
    """The verbs that begin with this word. Raises KeyError if there is none."""
    if first not in first_words():
        raise KeyError(first)
    file = first.replace("-", "_")
    importlib.import_module(f"{COMMANDS}.{file}_" if iskeyword(file) else f"{COMMANDS}.{file}")
    return [found for words, found in REGISTRY.items() if words.split()[0] == first]


def load_all() -> list[Verb]:
    """Import every command file and return all verbs in alphabetical order."""
    return sorted(found for first in first_words() for found in load(first))


def find(words: list[str]) -> Verb | None:
    """The verb that a command line begins with: two words if there is such a verb, else one."""
    if not words or words[0] not in first_words():
        return None
    load(words[0])
    return REGISTRY.get(" ".join(words[:2])) or REGISTRY.get(words[0])


def did_you_mean(word: str, known: list[str]) -> str:
    """` Did you mean 'x'?`, or nothing."""
    from difflib import get_close_matches

    names = {name.lstrip("-"): name for name in known if len(name) > 2}  # dashes alone would make any two flags alike
    close = get_close_matches(word.lstrip("-"), names, 1, 0.5)
    return f" Did you mean '{names[close[0]]}'?" if close else ""
