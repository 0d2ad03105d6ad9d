"""The filters of a dispatch as the words of its flags: what a form's fields say, and what the planner is asked. Pure.

They are read by the command line's own parser, so that a field, the command that is shown and what is sent cannot say
different things.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from rwkvctl.cli import selection
from rwkvctl.cli.parser import UsageError, arguments
from rwkvctl.cli.registry import Option, field_options, find
from rwkvctl.protocol.requests import Selection
from rwkvctl.text.shell_words import as_typed, as_words

Words = tuple[str, ...]

ELSEWHERE: Final = frozenset({"rows", "manifest", "run_log_dir"})
"""Flags that name files of the machine where they are typed: for the `:` line."""

TITLES: Final = {
    "models": ("models", "names, patterns, paths; builtin"),
    "only_datasets": ("benchmarks", "names (default: all prepared, no training sets)"),
    "model_regex": ("regex", "g1.*2.9b"),
    "skip_datasets": ("skip", "benchmarks to leave out"),
    "model_select": ("which", "all, latest-data …"),
    "only_jobs": ("kinds", "free_response …"),
    "domains": ("domains", "multi_choice, code …"),
    "skip_jobs": ("skip kinds", "kinds to leave out"),
    "limit": ("limit", "the first N rows"),
    "suite": ("suite", "of benchmarks.toml"),
    "profiles": ("prompts", "rwkv-skills-v1, lm-eval"),
    "seed": ("seed", "a number"),
    "set": ("set", "temperature=0 …"),
    "numerics": ("numerics", "fast, exact, fp32 …"),
    "priority": ("priority", "0; higher starts earlier"),
    "overwrite": ("overwrite", "yes: measure again"),
    "group": ("group", "a name"),
    "note": ("note", "for the job log"),
}
"""The fields of the form by the names of their flags, in order: what each is called, and what may stand there. The
other flags are for the `:` line."""

YES: Final = frozenset({"y", "yes", "true", "1"})


def fields() -> list[Option]:
    """Return the flags that have a field in the form."""
    known = {option.name: option for option in field_options(selection.Filters)}
    return [known[name] for name in TITLES]


def words_of(values: Mapping[str, str]) -> Words:
    """What the fields say as words of a command line. Raises ValueError for quotes that are left open."""
    found: list[str] = []
    for option in fields():
        text = values.get(option.name, "").strip()
        if option.kind is None:
            found += [option.flags[0]] if text.lower() in YES else []
        elif option.many:
            parts = as_words(text.replace(",", " ") if option.name != "set" else text)
            found += [option.flags[0], *parts] if parts else []
        elif text:
            found += [option.flags[0], text]
    return tuple(found)


def values_of(words: Words) -> dict[str, str]:
    """The same as texts of fields. Raises UsageError or SelectionError for words that say nothing."""
    filters, found = read(words), dict[str, str]()
    for option in fields():
        value = getattr(filters, option.name)
        if option.kind is None:
            found[option.name] = "yes" if value else ""
        elif option.many:
            found[option.name] = as_typed(value)
        else:
            found[option.name] = "" if value is None or value == option.default else str(value)
    return found


def read(words: Words) -> selection.Filters:
    """Return the filters that these words of a command line set. Raises UsageError."""
    verb = find(["queue"])
    assert verb is not None
    given, _ = arguments(verb, list(words))
    filters = given["filters"]
    assert isinstance(filters, selection.Filters)
    named = [name for name in sorted(ELSEWHERE) if getattr(filters, name)]
    if named:
        raise UsageError(f"--{named[0].replace('_', '-')} names files: type :dispatch --{named[0].replace('_', '-')} …")
    if selection.names_file(selection.settings(filters.set).get("order", "")):
        raise UsageError("--set order= names a file: type :dispatch --only-datasets … --set order=…")
    return filters


def selected(words: Words) -> Selection:
    """What the planner is asked. Raises UsageError or SelectionError with a sentence."""
    return msgspec.convert(selection.body(read(words)), Selection)


def line(verb: str, words: Sequence[str]) -> str:
    """Return the equal command line."""
    return as_typed(("rwkvctl", verb, *words))
