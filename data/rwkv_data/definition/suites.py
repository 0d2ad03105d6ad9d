"""The operator's suites in `benchmarks.toml`: benchmarks that are measured together, as `dispatch --suite` names them.

    [suites.nightly]
    description = "what every checkpoint is measured on"
    benchmarks = ["gsm8k", "mmlu", "arc_easy.multi_choice_plain.lm-eval"]   # a benchmark, or one kind of it
    limit = 500                                  # only the first rows of each
    objective = ["gsm8k"]                        # what the best checkpoint of a training run is the best in
    hold_back = true                             # show a training run only the rows of `part=search`
    [suites.nightly.defaults]                    # settings, as elsewhere in the file
    seed = 7
    [suites.nightly.gsm8k]
    k = 4
    [suites.nightly.search]                      # and search for the best settings of these models
    models = ["rwkv7-*-2.9b*"]

`kinds` and `profiles` say which kinds of the benchmarks are meant, as `--only-jobs` and `--profiles` do. A suite's
settings win over the standing ones of the file, and `--set` wins over all.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from rwkv_data.definition import overrides, own_benchmark
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.overrides import DEFAULTS, SUITES, OverrideRule, Overrides
from rwkvctl.protocol.errors import ConfigError

SEARCH_OF: Final = "param_search_"
"""The name of the kind that searches for the settings of another kind begins so."""
LONGEST_NAME: Final = 64

Place = tuple[str, ...]
Where = Callable[[Place], str]


class SuiteMember(NamedTuple):
    """A benchmark of a suite; with a `kind` only that one."""

    benchmark: str
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSearch:
    """Of which models (globs; of each architecture and size only the `newest` data version) a suite searches for the
    best settings, and on which of its benchmarks (empty: all that have a search)."""

    models: tuple[str, ...]
    newest: bool = False
    benchmarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Benchmarks that are measured together. Without `members`: all that a dispatch without flags measures.
    `objective`: what the best checkpoint is the best in. `hold_back`: the feedback on a checkpoint is of the rows for
    choosing settings alone (`part=search`), although all are measured."""

    name: str
    description: str = ""
    members: tuple[SuiteMember, ...] = ()
    kinds: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    limit: int | None = None
    objective: tuple[SuiteMember, ...] = ()
    hold_back: bool = False
    search: SuiteSearch | None = None
    overrides: Overrides = field(default_factory=Overrides)

    def settings(self, benchmark: str, kind: Kind) -> dict[str, str]:
        """Return what the suite sets for a kind, of the settings that it has and whose values it accepts."""
        return self.overrides.settings(benchmark, kind)

    def means(self, benchmark: str, kind: str, *, profile: str, default: bool) -> bool:
        """Whether the suite has this kind of a benchmark: by its name, or as a dispatch with the suite's kinds and
        profiles would. Of a kind with and one without a judge it has both; which one is measured the node decides."""
        if (benchmark, kind) in self.members:
            return True
        if kind.startswith(SEARCH_OF) or (self.members and (benchmark, "") not in self.members):
            return False
        if self.profiles and profile not in self.profiles:
            return False
        is_usual = default or bool(self.profiles)
        return kind in self.kinds or (is_usual and (not self.kinds or kind.partition(".")[0] in self.kinds))


def read(path: Path, benchmarks: Mapping[str, Benchmark]) -> dict[str, Suite]:
    """Return the suites of a file by name; none if there is no such file. Raises ConfigError with file and line."""
    text, table = overrides.parsed(path)

    def where(place: Place) -> str:
        return f"{path}:{overrides.line_of(text, place)}"

    found = table.get(SUITES, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{where((SUITES,))}: [{SUITES}] must hold a table for each suite.")
    return {name: SuiteTable(name, content, benchmarks, where).suite() for name, content in found.items()}


@dataclass(frozen=True, slots=True)
class SuiteTable:
    """The table of one suite as the file has it, and where its lines are."""

    name: str
    content: Any
    benchmarks: Mapping[str, Benchmark]
    where: Where

    def suite(self) -> Suite:
        """Return the checked suite. Raises ConfigError."""
        if not isinstance(self.content, dict):
            raise self._error((), f"[{SUITES}.{self.name}] must be a table.")
        if not (self.name.isprintable() and self.name.strip() == self.name and 0 < len(self.name) <= LONGEST_NAME):
            raise self._error((), f"{self.name!r} cannot be the name of a suite.")
        plain = Suite(
            name=self.name,
            description=self._value("description", str, "", "a text"),
            members=self._members("benchmarks"),
            kinds=self._known("kinds", {text for kind in self._every_kind() for text in (kind.name, kind.job)}),
            profiles=self._known("profiles", {kind.profile for kind in self._every_kind()}),
            limit=self._limit(),
            objective=self._members("objective"),
            hold_back=self._value("hold_back", bool, False, "true or false"),
        )
        meant = {name: kinds for name in self.benchmarks if (kinds := list(self._kinds_of(plain, name)))}
        for name, kind in plain.members:
            if name in self.benchmarks and not kind and name not in meant:
                raise self._error(("benchmarks",), f"{name} has no kind of these kinds and profiles.")
        if not plain.members and not meant:
            raise self._error((), "no benchmark has a kind of these kinds and profiles.")
        self._check_objective(plain.objective, meant)
        if (plain.kinds or plain.profiles) and plain.members and all(kind for _, kind in plain.members):
            text = "kinds and profiles are of benchmarks that are named alone, and there is none."
            raise self._error(("kinds" if plain.kinds else "profiles",), text)
        searches = {name: found for name in meant if (found := list(self._searches_of(name, meant[name])))}
        search = self._search(meant, searches)
        if search is not None:
            for name in search.benchmarks or searches:
                meant[name] += searches[name]
        rules = tuple(sorted(self._rules(meant), key=lambda rule: rule.rank))
        return replace(plain, search=search, overrides=Overrides(rules))

    def _check_objective(self, objective: Iterable[SuiteMember], meant: Mapping[str, Sequence[Kind]]) -> None:
        """Raise ConfigError if the suite does not measure what its best checkpoint is to be the best in."""
        for name, kind in objective:
            if self._is_gone(name):
                continue
            if name not in meant or kind not in {"", *(one.name for one in meant[name])}:
                called = ".".join(filter(None, (name, kind)))
                raise self._error(("objective",), f"{called} is not among what the suite measures.")

    def _kinds_of(self, suite: Suite, benchmark: str) -> Iterator[Kind]:
        """Yield the kinds of a benchmark that the suite measures; of one with and one without a judge, both."""
        found = self.benchmarks[benchmark]
        if not suite.members and (found.built_in or found.training):
            return
        for kind in found.kinds.values():
            if suite.means(benchmark, kind.name, profile=kind.profile, default=kind.default):
                yield kind

    def _searches_of(self, benchmark: str, meant: Iterable[Kind]) -> Iterator[Kind]:
        """Yield the kinds that search for the settings of those that are meant."""
        kinds = self.benchmarks[benchmark].kinds
        yield from (kinds[SEARCH_OF + kind.name] for kind in meant if SEARCH_OF + kind.name in kinds)

    def _members(self, key: Literal["benchmarks", "objective"]) -> tuple[SuiteMember, ...]:
        texts = self._texts(key)
        if not texts and key in self.content:
            without = "all that a dispatch without flags measures" if key == "benchmarks" else "none"
            raise self._error((key,), f"{key} is empty; without the key the suite has {without}.")
        return tuple(self._member(key, text) for text in texts)

    def _member(self, key: str, text: str) -> SuiteMember:
        benchmark, dot, kind = text.partition(".")
        if dot and not kind:
            raise self._error((key,), f"{text!r} names no kind behind the dot.")
        if self._is_gone(benchmark):
            return SuiteMember(benchmark, kind)
        if benchmark not in self.benchmarks:
            near = get_close_matches(benchmark, self.benchmarks, 1, 0.6)
            meant = f"; did you mean {near[0]}?" if near else "; see `rwkvctl benchmarks`."
            raise self._error((key,), f"there is no benchmark {benchmark!r}{meant}")
        kinds = self.benchmarks[benchmark].kinds
        if kind and kind not in kinds:
            raise self._error((key,), f"{benchmark} has no kind {kind!r}; it has {', '.join(kinds)}.")
        if kind.startswith(SEARCH_OF):
            raise self._error((key,), f"{text} is a search: [{SUITES}.{self.name}.search] schedules it.")
        return SuiteMember(benchmark, kind)

    def _is_gone(self, benchmark: str) -> bool:
        """Whether a name is that of a set of own rows which is not there: such sets come and go, and the suite is
        refused when it is dispatched, not the file."""
        return benchmark.startswith(own_benchmark.PREFIX) and benchmark not in self.benchmarks

    def _known(self, key: str, known: set[str]) -> tuple[str, ...]:
        texts = self._texts(key)
        for text in texts:
            if text not in known or text.startswith(SEARCH_OF):
                offered = sorted(one for one in known if not one.startswith(SEARCH_OF))
                raise self._error((key,), f"{key}: there is no {text!r}; there are {', '.join(offered)}.")
        return texts

    def _limit(self) -> int | None:
        limit: int | None = self._value("limit", int, None, "a number of rows")
        if limit is not None and not 1 <= limit < 2**62:
            raise self._error(("limit",), f"limit must be at least 1, not {limit}.")
        return limit

    def _search(self, meant: Mapping[str, Any], searches: Mapping[str, Any]) -> SuiteSearch | None:
        if "search" not in self.content:
            return None
        found, place = self._value("search", dict, {}, "a table with models"), ("search",)
        if unknown := sorted(found.keys() - {"models", "newest", "benchmarks"}):
            raise self._error((*place, unknown[0]), f"search has no {unknown[0]!r}: it has models, newest, benchmarks.")
        models = self._texts("models", found, place)
        if not models:
            raise self._error(place, "search needs models: patterns of their names.")
        searched = self._texts("benchmarks", found, place)
        for name in searched:
            if name not in meant:
                raise self._error((*place, "benchmarks"), f"{name!r} is not among the suite's benchmarks.")
            if name not in searches:
                raise self._error((*place, "benchmarks"), f"no kind of {name} in the suite has a search.")
        if not searches:
            raise self._error(place, "no kind of the suite's benchmarks has a search.")
        newest = self._value("newest", bool, False, "true or false", found, place)
        return SuiteSearch(models=models, newest=newest, benchmarks=searched)

    def _rules(self, meant: Mapping[str, Sequence[Kind]]) -> Iterator[OverrideRule]:
        """Yield the settings of a suite, each checked for the kinds that it measures."""
        tables = {
            name: content for name, content in self.content.items() if name not in KEYS and not self._is_gone(name)
        }
        for name in tables:
            if name not in {DEFAULTS, *self.benchmarks}:
                text = f"there is neither a key nor a benchmark {name!r}; the keys are {', '.join(KEYS)}."
                raise self._error((name,), text)
            if name not in {DEFAULTS, *meant}:
                raise self._error((name,), f"{name} is not among the suite's benchmarks.")
        place = (SUITES, self.name)
        for rule in overrides.rules_in(tables, "", place, self.benchmarks, self.where):
            if rule.kind and rule.kind not in {kind.name for kind in meant[rule.benchmark]}:
                text = f"{rule.kind} of {rule.benchmark} is not among the suite's kinds."
                raise self._error((rule.benchmark, rule.kind), text)
            if problem := overrides.problem(rule, ((name, kind) for name, kinds in meant.items() for kind in kinds)):
                hint = f" {rule.name} is a key of [{SUITES}.{self.name}] itself." if rule.name in KEYS else ""
                raise ConfigError(f"{rule.where}: suite {self.name}: {problem}.{hint}")
            yield rule

    def _every_kind(self) -> Iterator[Kind]:
        return (kind for benchmark in self.benchmarks.values() for kind in benchmark.kinds.values())

    def _texts(self, key: str, table: Mapping[str, Any] | None = None, place: Place = ()) -> tuple[str, ...]:
        found: list[Any] = self._value(key, list, [], "a list of texts", table, place)
        if not all(isinstance(text, str) and text for text in found):
            raise self._error((*place, key), f"{key} must be a list of texts.")
        return tuple(dict.fromkeys(found))

    def _value(
        self, key: str, of: type, default: Any, called: str, table: Mapping[str, Any] | None = None, place: Place = ()
    ) -> Any:
        found = (self.content if table is None else table).get(key, default)
        if found is not default and (not isinstance(found, of) or (of is int and isinstance(found, bool))):
            raise self._error((*place, key), f"{key} must be {called}.")
        return found

    def _error(self, place: Place, text: str) -> ConfigError:
        return ConfigError(f"{self.where((SUITES, self.name, *place))}: suite {self.name}: {text}")


KEYS: Final = (
    "description", "benchmarks", "kinds", "profiles", "limit", "objective", "hold_back", "search",
)  # fmt: skip
"""What a suite's table may have besides tables of settings."""
