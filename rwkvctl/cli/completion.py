"""Shell completion from the registry; ids come from the daemon's socket; without a daemon none are offered."""

import re
from collections.abc import Callable
from typing import Final

from rwkvctl.cli.client import Client, Record, client_of
from rwkvctl.cli.parser import COMMON, OUTPUTS
from rwkvctl.cli.registry import Option, Verb, find, first_words, load
from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.settings import config

QUICK_S: Final = 0.25
PLAIN: Final = re.compile(r"[\w.+:@%/=-]+")
"""Only words that no shell reads as anything else are offered: names come from files and daemons."""

SCRIPTS: Final = {
    "bash": """\
_rwkvctl() {
    mapfile -t COMPREPLY < <(rwkvctl completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _rwkvctl rwkvctl
""",
    "zsh": """\
#compdef rwkvctl
_rwkvctl() {
    local -a found
    found=("${(@f)$(rwkvctl completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found[1]" ]]; then compadd -a found; else _files; fi
}
compdef _rwkvctl rwkvctl
""",
    "fish": """\
function __rwkvctl_words
    set -l given (commandline -opc) (commandline -ct)
    rwkvctl completion words $given[2..-1] 2>/dev/null
end
complete -c rwkvctl -f -a '(__rwkvctl_words)'
""",
}
"""What each shell sources."""

Source = Callable[[Client], list[str]]


def names(route: str, field: str, **query: object) -> Source:
    """Return a source that reads one field of every item of a list from the daemon."""
    return lambda client: [word for item in client.get(route, **query).value["items"] for word in as_list(item[field])]


def as_list(value: object) -> list[str]:
    """Return the items of a list, or a single value as a list of one, as strings."""
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def log_targets(client: Client) -> list[str]:
    """Return what `logs` accepts: `daemon`, and the ids of jobs and engines."""
    status: Record = client.get("/v1/status").value
    known = [*status["running"], *status["waiting"], *status.get("recent", ()), *status["engines"]]
    return ["daemon", *(item["id"] for item in known)]


JOBS: Final = names("/v1/jobs", "id", limit=200)
BENCHMARKS: Final = names("/v1/benchmarks", "name")
KINDS: Final = names("/v1/benchmarks", "kinds")
MODELS: Final = names("/v1/models", "name")
SOURCES: Final[dict[str, Source]] = {
    "job": JOBS,
    "jobs": JOBS,
    "target": log_targets,
    "model": MODELS,
    "models": MODELS,
    "benchmark": BENCHMARKS,
    "only_datasets": BENCHMARKS,
    "skip_datasets": BENCHMARKS,
    "name": BENCHMARKS,
    "only_jobs": KINDS,
    "skip_jobs": KINDS,
    "job_order": KINDS,
    "domains": names("/v1/benchmarks", "domain"),
    "session_id": names("/v1/jobs", "session", limit=200),
    "words": lambda _: first_words(),
    "page": lambda _: [*first_words(), "toml"],
    "watch": names("/v1/watches", "watch"),
    "receiver": names("/v1/notify", "name"),
    "pattern": lambda client: [item["pattern"] for item in client.get("/v1/baselines").value.get("pins", ())],
    "baseline": MODELS,
    "suite": names("/v1/suites", "name"),
    "harness": names("/v1/harnesses", "name"),
}
"""Where the values of a parameter come from, by the parameter's name."""


def candidates(words: list[str], patience_s: float = QUICK_S) -> list[str]:
    """Return the words that may complete the last of these words. The daemon has `patience_s` seconds to answer,
    because the shell's prompt waits for it."""
    *given, begun = words or [""]
    verb = find(given)
    if verb is None:
        found = (
            [option.words.split()[1] for option in load(given[0])] if given[:1] and given[0] in first_words() else []
        )
        found = found if given else first_words()
    else:
        rest = given[len(verb.words.split()) :]
        found = for_verb(verb, rest, begun, lambda source: ask(source, words, patience_s))
        if len(given) == 1:
            found += [other.words.split()[1] for other in load(given[0]) if " " in other.words]
    return sorted({word for word in found if word.startswith(begun) and PLAIN.fullmatch(word)})


def for_verb(verb: Verb, rest: list[str], begun: str, fetch: Callable[[Source], list[str]]) -> list[str]:
    """Return the flags of the verb, or the values of the flag or argument at the cursor."""
    options = verb.options
    if begun.startswith("-"):
        common = [flag for flag, _ in COMMON]
        return [flag for option in options for flag in option.flags] + [*common, "-o", "--output", "--help"]
    last = next((word for word in reversed(rest) if word.startswith("-")), "")
    if last in {"-o", "--output"} and rest[-1] == last:
        return list(OUTPUTS)
    flagged = next((option for option in options if last in option.flags), None) if last else None
    if flagged and flagged.kind is not None and (flagged.many or rest[-1] == last):
        return values(flagged, fetch)
    free = [option for option in options if not option.flags]
    return values(free[0], fetch) if free else []


def values(option: Option, fetch: Callable[[Source], list[str]]) -> list[str]:
    """Return the values an option accepts: its choices, or what its source reads from the daemon."""
    if option.choices:
        return list(option.choices)
    return fetch(SOURCES[option.name]) if option.name in SOURCES else []


def ask(source: Source, words: list[str], patience_s: float) -> list[str]:
    """Read a source from the daemon; empty if the daemon is down or takes longer than `patience_s`."""
    flags = {name: after(words, f"--{name}") for name in ("home", "socket")}
    try:
        return source(client_of(config.load(flags), patience_s, tries=1))
    except (RwkvctlError, OSError, KeyError):
        return []


def after(words: list[str], flag: str) -> str:
    """Return the word that follows a flag on the command line; empty if the flag is absent or the last word."""
    return words[words.index(flag) + 1] if flag in words[:-1] else ""
