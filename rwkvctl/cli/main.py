"""The command line: find the verb, parse its flags, run it, and turn every foreseeable error into one sentence."""

import os
import sys
from typing import Any, Final

from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError, arguments, overview, parser_for, program, unknown_verb, wants_json
from rwkvctl.cli.registry import Verb, find, first_words, load
from rwkvctl.cli.render import Terminal
from rwkvctl.cli.verb_groups import meant
from rwkvctl.protocol.errors import Exit, RwkvctlError
from rwkvctl.settings import config
from rwkvctl.text.json_envelope import error_envelope
from rwkvctl.text.sanitize import safe_line

HELP: Final = {"-h", "--help"}


def main(words: list[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    words = program() if words is None else words
    terminal = Terminal(config.terminal_environment())
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return run(terminal, words)
    except RwkvctlError as error:
        return report(terminal, error, words)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.CLOSED_PIPE
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def run(terminal: Terminal, words: list[str]) -> int:
    """Run the verb that the words name, or print help, and return the exit code. Raises UsageError for an unknown
    verb."""
    if not words or words[0] in HELP:
        terminal.write(overview())
        return Exit.OK if words else Exit.USAGE
    words = ["version" if words[0] in {"-V", "--version"} else words[0], *words[1:]]
    verb = find(words)
    if verb is None:
        raise unknown_words(words)
    rest = words[len(verb.words.split()) :]
    if verb.passed:
        return verb.run(Context(terminal), rest)
    if HELP & set(rest):
        terminal.write(parser_for(verb).format_help())
        return Exit.OK
    values, parsed = arguments(verb, rest)
    return verb.run(context_of(terminal, parsed), **values)


def context_of(terminal: Terminal, parsed: Any) -> Context:
    """The context that the common flags ask for."""
    return Context(terminal, {"home": parsed.home_, "socket": parsed.socket_}, parsed.output_)


def unknown_words(words: list[str]) -> UsageError:
    """The error for a command line that begins with no verb."""
    if words[0] not in first_words():
        return unknown_verb(words[0])
    seconds: list[Verb] = load(words[0])
    names = [verb.words for verb in seconds]
    said = " ".join(words[:2])
    return UsageError(f"rwkvctl has no verb '{said}'.{meant(said, names)} Verbs: {', '.join(names)}.")


def report(terminal: Terminal, error: RwkvctlError, words: list[str]) -> int:
    """Print an error on standard error; with --json also as an envelope on standard output."""
    said = safe_line(str(error))
    terminal.note(said if said.startswith("rwkvctl ") else f"rwkvctl: {said}", "bad")
    if wants_json(words):
        terminal.json(error_envelope(error))
    return int(error.exit_code)
