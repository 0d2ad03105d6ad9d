"""argparse behind the registry: a parser for one verb, built only when that verb is called."""

import argparse
import sys
from typing import Any, Final, NoReturn

from rwkvctl.cli.registry import Option, Verb, did_you_mean, first_words, load_all
from rwkvctl.cli.verb_groups import GROUPS, meant
from rwkvctl.protocol.errors import Exit, RwkvctlError

SHORT_LIST: Final = 40
FEW: Final = 9
"""So many flags at most are shown in a usage one by one."""
WIDTH: Final = 80
OUTPUTS: Final = ("table", "wide", "json", "tsv")
EXIT_CODES: Final[dict[Exit, str]] = {
    Exit.OK: "success, or nothing had to change",
    Exit.FAILED: "failed: a job that the command waited for failed or was stopped, or a check or the gate failed",
    Exit.USAGE: "the command line or a setting is wrong",
    Exit.UNREACHABLE: "no daemon answers",
    Exit.NOT_FOUND: "no such job, model or benchmark",
    Exit.REFUSED: "refused: the plan changed, nothing matches the filters, --yes is needed, a file exists already, "
    "nothing is comparable, or the daemon does not allow it",
    Exit.TIMEOUT: "timed out waiting; the jobs continue",
    Exit.VERSION_SKEW: "client and daemon do not share a protocol version",
    Exit.PARTLY: "partly done, compared or imported: the reply says for each item what happened",
    Exit.NOT_NOW: "not now: the daemon's store does not answer; try the same command later",
    Exit.INTERRUPTED: "interrupted with Ctrl-C; the jobs continue",
    Exit.CLOSED_PIPE: "the reader of the output closed it (broken pipe)",
}
"""What each exit code means. They are stable: scripts depend on them."""

COMMON: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("--json", {"action": "store_const", "const": "json", "dest": "output_", "help": "the reply itself, as JSON"}),
    ("--home", {"metavar": "DIR", "dest": "home_", "help": "folder of data, weights and runs"}),
    ("--socket", {"metavar": "PATH", "dest": "socket_", "help": "the daemon's Unix socket"}),
)


class UsageError(RwkvctlError):
    """The command line has an unknown word, or a flag or value that is not accepted."""

    exit_code = Exit.USAGE


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises UsageError with one sentence instead of printing its usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}; see `{self.prog} --help`.")


def parser_for(verb: Verb) -> Parser:
    """Return the argparse parser of one verb: its own arguments and flags, and those common to all verbs."""
    parser = Parser(
        prog=f"rwkvctl {verb.words}",
        usage=folded(f"rwkvctl {verb.words}", usage(verb)),
        description=description(verb),
        epilog=epilog(verb),
        formatter_class=Formatter,
        allow_abbrev=False,
        add_help=False,
    )
    for option in verb.options:
        add(parser, option)
    common = parser.add_argument_group("common")
    common.add_argument("-o", "--output", choices=OUTPUTS, default="", dest="output_", metavar="|".join(OUTPUTS),
                        help="table (on a terminal), wide (all columns), tsv (in a pipe), or json")  # fmt: skip
    for flag, settings in COMMON:
        common.add_argument(flag, **settings)
    common.add_argument("-h", "--help", action="help", help="show this help")
    return parser


def usage(verb: Verb) -> list[str]:
    """The arguments and flags of a verb as its usage shows them, in brackets what may be left out. Of many flags only
    those that must be given."""
    arguments = [option for option in verb.options if not option.flags]
    flags = [option for option in verb.options if option.flags]
    few = len(flags) <= FEW
    shown = [*arguments, *(option for option in flags if few or option.required)]
    return [*(asked(option) for option in shown), "[flags]"]


def asked(option: Option) -> str:
    """One argument or flag: `JOB`, `[JOBS ...]`, `--baseline BASELINE`, `[--all]`."""
    value = "" if option.kind is None else metavar(option) + (" ..." if option.many else "")
    if option.alone:
        value = f"[{value}]"
    words = " ".join(filter(None, (*option.flags[:1], value)))
    return words if option.required else f"[{words}]"


def folded(first: str, words: list[str]) -> str:
    """A usage in lines of at most 80 columns, broken between its parts only."""
    lines = [f"usage: {first}"]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append(" " * len(f"usage: {first}"))
        lines[-1] += f" {word}"
    return "\n".join(lines).removeprefix("usage: ")


def description(verb: Verb) -> str:
    """Summary and text in lines of at most 80 columns."""
    from textwrap import fill

    paragraphs = f"{verb.summary}\n\n{verb.text}".strip().split("\n\n")
    return "\n\n".join(fill(" ".join(paragraph.split()), 80) for paragraph in paragraphs)


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help in at most 80 columns, examples as they are written."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=80)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        """`NAME ...` for several values, where argparse says everything twice."""
        if action.nargs in {"+", "*"}:
            return f"{self._metavar_formatter(action, default_metavar)(1)[0]} ..."
        return super()._format_args(action, default_metavar)


def epilog(verb: Verb) -> str:
    """Return the verb's examples as the last part of its help; empty if it has none."""
    return "examples:\n" + "\n".join(f"  {line}" for line in verb.examples) if verb.examples else ""


def add(parser: Parser, option: Option) -> None:
    """Add an argument or flag to the parser; a long list of choices is appended to its help."""
    words = option.help
    if len("|".join(option.choices)) > SHORT_LIST:
        words += f": {', '.join(option.choices)}"
    settings: dict[str, Any] = {"help": words}
    if option.kind is None:
        settings |= {"action": "store_true", "default": False}
    else:
        settings |= {"type": option.kind, "default": option.default, "metavar": metavar(option)}
        if option.choices:
            settings["choices"] = option.choices
    if option.flags:
        settings |= {"dest": option.name, "required": option.required}
        if option.many:
            settings |= {"nargs": "+", "action": "extend"}
        if option.alone and option.kind:
            settings |= {"nargs": "?", "const": option.kind(option.alone)}
        parser.add_argument(*option.flags, **settings)
    else:
        nargs = ("+" if option.required else "*") if option.many else (None if option.required else "?")
        parser.add_argument(option.name, **settings, nargs=nargs)


def metavar(option: Option) -> str:
    """How a value is called in the help."""
    if option.choices and len("|".join(option.choices)) <= SHORT_LIST:
        return "|".join(option.choices)
    return option.name.strip("_").split("_")[-1].upper()


def arguments(verb: Verb, words: list[str]) -> tuple[dict[str, Any], argparse.Namespace]:
    """The values for the verb's function, and all that was parsed."""
    parser = parser_for(verb)
    parsed, unknown = parser.parse_known_args(words)
    if unknown:
        raise UsageError(f"{parser.prog}: {unknown_words(parser, unknown)}; see `{parser.prog} --help`.")
    values: dict[str, Any] = {}
    groups: dict[type[Any], dict[str, Any]] = {}
    for option in verb.options:
        value = getattr(parsed, option.name)
        if option.group is None:
            values[option.name] = value
        else:
            groups.setdefault(option.group, {})[option.name] = value
    names = verb.parameters
    return values | {names[group]: group(**fields) for group, fields in groups.items()}, parsed


def wants_json(words: list[str]) -> bool:
    """Return whether JSON output is asked for on a command line that may be invalid."""
    parser = Parser(allow_abbrev=False, add_help=False)
    parser.add_argument("-o", "--output", dest="output_")
    parser.add_argument(COMMON[0][0], **COMMON[0][1])
    try:
        return bool(parser.parse_known_args(words)[0].output_ == "json")
    except UsageError:
        return False


def unknown_words(parser: Parser, unknown: list[str]) -> str:
    """Return the message for arguments that were not understood, with similar flags."""
    word = unknown[0].split("=")[0]
    known = [flag for action in parser._actions for flag in action.option_strings]
    kind = "flag" if word.startswith("-") else "argument"
    return f"unknown {kind} '{word}'.{did_you_mean(word, known)}".rstrip("?.") + (
        "?" if did_you_mean(word, known) else ""
    )


def unknown_verb(word: str) -> UsageError:
    """Return the error for a word that begins no verb, with similar words."""
    return UsageError(f"rwkvctl has no verb '{word}'.{meant(word, first_words())} See `rwkvctl help`.")


def overview() -> str:
    """Return the text of `rwkvctl help`: the verbs by group, and the exit codes."""
    verbs = load_all()
    width = max(len(verb.words) for verb in verbs)
    listed = "\n\n".join(
        f"{title}:\n" + "\n".join(f"  {verb.words:<{width}}  {verb.summary}" for verb in of_words(verbs, firsts))
        for title, firsts in GROUPS.items()
    )
    codes = "\n".join(f"  {code.value:>3}  {meaning}" for code, meaning in EXIT_CODES.items())
    return (
        "rwkvctl: measure RWKV-7 checkpoints on this node's GPUs.\n\n"
        f"usage: rwkvctl VERB [arguments] [-o table|json|tsv] [--home DIR] [--socket PATH]\n\n{listed}\n\n"
        f"exit codes:\n{codes}\n\n"
        "`rwkvctl VERB --help` has examples and every flag. Data goes to standard output, everything else\n"
        "to standard error. NO_COLOR and FORCE_COLOR are respected; a pipe gets tab-separated lines.\n"
    )


def of_words(verbs: list[Verb], firsts: tuple[str, ...]) -> list[Verb]:
    """The verbs that begin with these words, in their order."""
    return [verb for first in firsts for verb in verbs if verb.words.split()[0] == first]


def reference() -> str:
    """Return the text of `docs/verbs.md`: every verb with its help."""
    codes = "".join(f"| {code.value} | {meaning} |\n" for code, meaning in EXIT_CODES.items())
    verbs = "".join(f"\n## {verb.words}\n\n```text\n{parser_for(verb).format_help()}```\n" for verb in load_all())
    return (
        "# Verbs\n\nWritten by `rwkvctl help --markdown`; `make docs` brings it up to date, and a test compares.\n"
        "What `--json` prints is in [json.md](json.md).\n\n"
        "With `-o tsv`, and in a pipe, a table is tab-separated lines: one header line, no text is shortened,\n"
        "numbers are plain as in JSON (shares as fractions of 1, durations in seconds, sizes in bytes), and unknown\n"
        "values are empty. If a verb has several tables they are written as one with the columns of all; its first\n"
        "column, `table`, names the table of each line.\n\n"
        f"| exit code | meaning |\n|---|---|\n{codes}{verbs}"
    )


def program() -> list[str]:
    """What the user typed after the program's name."""
    return sys.argv[1:]
