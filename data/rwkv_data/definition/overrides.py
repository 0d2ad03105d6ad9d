"""The operator's standing settings of benchmarks: `benchmarks.toml` beside the configuration.

    [defaults]                                   # every benchmark that has the setting
    attempts = 5000
    [gsm8k]                                      # every kind of one benchmark
    shots = 4
    [gsm8k.free_response.cot]                    # one stage of one kind
    temperature = 0.5
    [models."rwkv7-g1*".math_500]                # the same below, for models whose name matches
    k = 8
    [math_500.param_search_free_response.grid]   # a list is the values of a search
    temperature = [0.3, 0.6]

The more particular one wins: a model's over everybody's, a kind's over its benchmark's, that over the defaults; `--set`
wins over all. What the file sets becomes part of a job when it is dispatched, so a later change of the file changes no
job. `[suites.NAME]` belong to `rwkv_data.definition.suites`.
A name that nothing has is an error with file and line, never without effect.
"""

import contextlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rwkv_data.definition import own_benchmark
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.kind import Kind
from rwkvctl.protocol.errors import ConfigError

DEFAULTS, MODELS, SUITES = "defaults", "models", "suites"


@dataclass(frozen=True, slots=True)
class OverrideRule:
    """One setting: for which models (a glob), benchmark and kind (empty: any), and where it was written."""

    models: str
    benchmark: str
    kind: str
    name: str
    value: str
    where: str

    def applies(self, benchmark: str, kind: str, model: str) -> bool:
        """Whether the rule is meant for this kind of this model; without a model only rules for all models are."""
        return (
            self.benchmark in {"", benchmark}
            and self.kind in {"", kind}
            and (not self.models or (bool(model) and fnmatchcase(model, self.models)))
        )

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """Sort key: a model outranks a kind, a kind a benchmark, and the rule of the highest rank wins."""
        return bool(self.models), bool(self.kind), bool(self.benchmark)


@dataclass(frozen=True, slots=True)
class Overrides:
    """The rules of `benchmarks.toml`, the most specific last."""

    rules: tuple[OverrideRule, ...] = ()

    def settings(self, benchmark: str, kind: Kind, model: str = "") -> dict[str, str]:
        """Return what the file sets for a kind, of the settings that the kind has and whose values it accepts."""
        found: dict[str, str] = {}
        for rule in self.rules:
            if rule.applies(benchmark, kind.name, model):
                found |= kind.full_names({rule.name: rule.value})
        return {name: value for name, value in found.items() if not refusal(kind, name, value)}

    def reaches(self, model: str, benchmark: str, kind: str) -> bool:
        """Whether any rule for particular models is meant for this kind of this model."""
        return any(rule.models and rule.applies(benchmark, kind, model) for rule in self.rules)


def read(path: Path, benchmarks: Mapping[str, Benchmark], *, strict: bool = True) -> Overrides:
    """Return the rules of a file; none if there is no such file. Raises ConfigError with file and line. Unless
    `strict`, rules for benchmarks that are not given are ignored."""
    text, table = parsed(path)
    if not strict:
        table = only(table, benchmarks)
    rules = sorted(rules_of(table, benchmarks, lambda place: f"{path}:{line_of(text, place)}"), key=lambda r: r.rank)
    for rule in rules:
        if found := problem(rule, ((one.name, kind) for one in benchmarks.values() for kind in one.kinds.values())):
            raise ConfigError(f"{rule.where}: {found}.")
    return Overrides(tuple(rules))


def parsed(path: Path) -> tuple[str, dict[str, Any]]:
    """Return a file's text and what it says; nothing if there is no such file. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        return "", {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no readable TOML: {error}.") from error


def only(table: Mapping[str, Any], benchmarks: Mapping[str, Benchmark]) -> dict[str, Any]:
    """Return the file's table without the settings of other benchmarks."""

    def kept(tables: Mapping[str, Any]) -> dict[str, Any]:
        return {name: content for name, content in tables.items() if name in benchmarks or name == DEFAULTS}

    return kept(table) | {MODELS: {glob: kept(below) for glob, below in table.get(MODELS, {}).items()}}


def rules_of(table: Mapping[str, Any], benchmarks: Mapping[str, Benchmark], where: Any) -> Iterator[OverrideRule]:
    """Yield every standing setting of the file as a rule."""
    for models, below, path in scopes(checked(table, where)):
        yield from rules_in(below, models, path, benchmarks, where)


def rules_in(
    tables: Mapping[str, Any], models: str, path: tuple[str, ...], benchmarks: Mapping[str, Benchmark], where: Any
) -> Iterator[OverrideRule]:
    """Yield the settings in tables of benchmarks as rules for these models; the tables stand below a path of keys."""
    for name, content in tables.items():
        place = (*path, name)
        if name.startswith(own_benchmark.PREFIX) and name not in benchmarks:
            continue  # sets of own rows come and go
        if name != DEFAULTS and name not in benchmarks:
            meant = "; suites are in tables [suites.NAME]." if name == "suite" else "; see `rwkvctl benchmarks`."
            raise ConfigError(f"{where(place)}: there is no benchmark {name!r}{meant}")
        if not isinstance(content, dict):
            raise ConfigError(f"{where(place)}: [{name}] must be a table of settings.")
        benchmark = "" if name == DEFAULTS else name
        kinds = benchmarks[name].kinds if benchmark else {}
        yield from rules_below(content, (models, benchmark), kinds, place, where)


def checked(table: Mapping[str, Any], where: Any) -> Mapping[str, Any]:
    """Return the table after checking that [models] holds a table for each glob."""
    models = table.get(MODELS, {})
    if not isinstance(models, dict):
        raise ConfigError(f"{where((MODELS,))}: [models] must hold a table for each name of models.")
    for glob, below in models.items():
        if not isinstance(below, dict):
            raise ConfigError(f"{where((MODELS, glob))}: [models.{glob}] must be a table of benchmarks.")
    return table


def scopes(table: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], tuple[str, ...]]]:
    """Yield (models, tables of benchmarks, path): for all models, then for each glob of models."""
    yield "", {name: content for name, content in table.items() if name not in {MODELS, SUITES}}, ()
    for glob, below in table.get(MODELS, {}).items():
        yield glob, below, (MODELS, glob)


def rules_below(
    content: Mapping[str, Any], scope: tuple[str, str], kinds: Mapping[str, Kind], path: tuple[str, ...], where: Any
) -> Iterator[OverrideRule]:
    """Yield the settings of one benchmark as rules; a table with a kind's name holds those of that kind."""
    for key, value in content.items():
        if key in kinds and not isinstance(value, dict):
            raise ConfigError(f"{where((*path, key))}: {key} is a kind: it must be a table of settings.")
        inside, kind, start = (value, key, (*path, key)) if key in kinds else ({key: value}, "", path)
        for name, scalar in flat(inside):
            place = (*start, *name.split("."))
            if isinstance(scalar, dict):
                raise ConfigError(f"{where(place)}: {name} must be a number or a word.")
            text = ",".join(map(str, scalar)) if isinstance(scalar, list) else str(scalar)
            yield OverrideRule(*scope, kind, name, text, where(place))


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the entries of nested tables under dotted names, such as `cot.temperature`."""
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def problem(rule: OverrideRule, kinds: Iterable[tuple[str, Kind]]) -> str:
    """Return why a rule has no effect on kinds of these benchmarks; empty if one has the setting and takes the
    value."""
    reached = [kind for benchmark, kind in kinds if rule.benchmark in {"", benchmark} and rule.kind in {"", kind.name}]
    refused = [why for kind in reached if (why := refusal(kind, rule.name, rule.value))]
    # What is meant for everything need not suit everything; what names a benchmark must suit each kind that has it.
    having = [kind for kind in reached if rule.benchmark and kind.has_setting(rule.name)]
    strict = [why for kind in having if (why := refusal(kind, rule.name, rule.value))]
    if strict or (reached and len(refused) == len(reached)):
        return (strict or refused)[0]
    return ""


def refusal(kind: Kind, name: str, value: str) -> str:
    """Return why a kind cannot take a setting; empty if it can."""
    try:
        kind.with_settings({name: value})
    except SettingError as error:
        return str(error)
    return ""


def line_of(text: str, place: tuple[str, ...]) -> int:
    """Return the line on which a key, or the table itself, is written; 1 if it cannot be found line by line."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        keys = keys_on(line)
        if line.lstrip().startswith("["):
            table = keys
        if keys and place == (table if line.lstrip().startswith("[") else (*table, *keys))[: len(place)]:
            return number
    return 1


def keys_on(line: str) -> tuple[str, ...]:
    """Return the keys that a line names, also of a list that goes on below it; none if it names none."""
    for ending in ("", "\n]"):
        with contextlib.suppress(tomllib.TOMLDecodeError):
            return path_of(tomllib.loads(line + ending))
    return ()


def path_of(table: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys that lead to the single entry of a parsed line."""
    keys: tuple[str, ...] = ()
    while isinstance(table, dict) and table:
        key = next(iter(table))
        keys, table = (*keys, key), table[key]
    return keys
