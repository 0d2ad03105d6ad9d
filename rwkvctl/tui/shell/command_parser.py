"""Reads what is typed after `:`: a screen's name, or any verb, parsed by the command line's own parser. Pure."""

from collections.abc import Collection
from typing import Final, NamedTuple

from rwkvctl.cli.parser import UsageError, arguments, unknown_verb
from rwkvctl.cli.registry import Verb, find, first_words
from rwkvctl.cli.selection import names_file
from rwkvctl.text.shell_words import as_typed, as_words
from rwkvctl.tui.shell.navigation import Location

READING: Final = frozenset(
    {
        "audit", "baseline", "benchmarks", "benchmarks diff", "benchmarks show", "compare", "completion", "config show",
        "data list", "doctor", "events", "feedback", "gpus", "gpus history", "harness", "harness tasks", "help",
        "job-log", "jobs", "judge", "logs", "metrics", "models", "order", "queue", "recipe check", "recipe list",
        "recipe show", "recipe verify", "samples", "samples counts", "samples diff", "samples exchange", "samples same",
        "scores", "search", "show", "status", "suites", "version", "watch", "watch show", "watch wait",
        "weights inspect", "weights list", "weights show", "weights verify", "zombies",
    }
)  # fmt: skip
"""Verbs that change nothing: all that a read-only console runs."""

ELSEWHERE: Final = frozenset({"tui", "daemon", "engine serve", "serve"})
"""Verbs that take the terminal for themselves, or stay until they are stopped."""

HELP: Final = {"-h", "--help"}


class Run(NamedTuple):
    """A verb to run, by its words and everything after them."""

    verb: Verb
    words: tuple[str, ...]

    @property
    def line(self) -> str:
        """Return the command as it is typed in a shell."""
        return as_typed(("rwkvctl", *self.words))


class Quit(NamedTuple):
    """A line that asks to leave the console."""


def understand(text: str, screens: Collection[str], *, read_only: bool = False) -> Location | Run | Quit | None:
    """Return what a line asks for; None if it is empty. Raises ValueError or UsageError with a sentence."""
    words = split(text)
    if not words:
        return None
    if words[0] in {"q", "quit", "exit"} and len(words) == 1:
        return Quit()
    if words[0] in screens and (len(words) == 1 or (len(words) == 2 and words[0] not in first_words())):
        return Location(words[0], *words[1:])
    verb = find(words)
    if verb is None:
        raise unknown_verb(words[0])
    check(verb, words, read_only=read_only)
    return Run(verb, tuple(words))


def split(text: str) -> list[str]:
    """Return the words of a line, split as a shell would."""
    try:
        words = as_words(text)
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from error
    return words[1:] if words[:1] == ["rwkvctl"] else words


def changes_something(verb: str, word: str) -> bool:
    """Whether a verb that only reads changes something because of a word: shows held-back rows, which is written down,
    writes a file, or gives the node an order file."""
    setting, _, value = word.removeprefix("--set=").partition("=")
    gives_order = verb == "queue" and setting == "order" and names_file(value)
    return word.startswith("--reveal") or word.partition("=")[0] == "--to" or gives_order


def words_about(about: str) -> list[str]:
    """Return the words of what a screen is about; text that a shell could not split counts as one word."""
    try:
        return as_words(about)
    except ValueError:
        return [about]


def check(verb: Verb, words: list[str], *, read_only: bool) -> None:
    """Raise an error for commands that cannot be run from the console, before anything is started."""
    if verb.words in ELSEWHERE or (verb.passed and not HELP & set(words)):
        raise ValueError(f"rwkvctl {verb.words} runs until it is stopped: start it in another shell.")
    changes = verb.words not in READING or any(changes_something(verb.words, word) for word in words)
    if read_only and changes and not HELP & set(words):
        raise ValueError(
            f"This console is read-only: rwkvctl {verb.words} changes something. Start it without --read-only."
        )
    if not verb.passed and not HELP & set(words):
        arguments(verb, words[len(verb.words.split()) :])


def completed(text: str, found: list[str]) -> tuple[str, list[str]]:
    """Return the line with its last word completed to the common prefix of all candidates, and these if there are
    several."""
    begun = text.rsplit(None, 1)[-1] if text and not text[-1].isspace() else ""
    if not found:
        return text, []
    common = found[0]
    for word in found[1:]:
        while not word.startswith(common):
            common = common[:-1]
    whole = text[: len(text) - len(begun)] + common
    return (whole + " ", []) if len(found) == 1 else (whole, found)


__all__ = ["ELSEWHERE", "READING", "Quit", "Run", "UsageError", "completed", "split", "understand"]
