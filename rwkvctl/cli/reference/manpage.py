"""Man pages made of the registry and of the settings: what is not in the program is not in its manual.

rwkvctl(1) lists the verbs, rwkvctl-VERB(1) is a verb's help, rwkvctl-daemon(8) is the service, rwkvctl.toml(5) the
configuration. Written in man(7), checked by groff in the tests.

argparse-manpage 4.8 was tried in its place: it titles the page of a verb RWKVCTL(DISPATCH), which man(1) does not find,
leaves NAME without the summary that apropos(1) reads, and has nothing for the pages of section 5 and 8.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Final

from rwkvctl import __version__
from rwkvctl.cli.parser import COMMON, EXIT_CODES, metavar, usage
from rwkvctl.cli.reference.manual_text import (
    ABOUT,
    CONFIGURATION,
    EXAMPLE,
    FILES,
    OTHER_TABLES,
    SERVICE,
    SIGNALS,
    TABLES,
)
from rwkvctl.cli.registry import Option, Verb, load_all
from rwkvctl.protocol.errors import Exit
from rwkvctl.settings.config import MARKERS
from rwkvctl.settings.fields import Settings
from rwkvctl.settings.notify import EVENTS

MANUALS: Final = {1: "User Commands", 5: "File Formats", 8: "System Administration"}


def pages() -> dict[str, Callable[[], str]]:
    """Every page by its file's name: `rwkvctl-dispatch.1`."""
    found: dict[str, Callable[[], str]] = {
        "rwkvctl.1": overview, "rwkvctl-daemon.8": daemon, "rwkvctl.toml.5": configuration,
    }  # fmt: skip
    for verb in load_all():
        if verb.words != "daemon":
            found[f"rwkvctl-{verb.words.replace(' ', '-')}.1"] = lambda verb=verb: page_of(verb)  # type: ignore[misc]
    return found


def head(name: str, section: int, summary: str) -> Iterator[str]:
    """Yield the title line and the NAME section; `section` is the number of the manual's section."""
    yield f'.TH "{name.upper()}" {section} "" "rwkvctl {__version__}" "{MANUALS[section]}"'
    yield from (".nh", ".ad l", ".SH NAME", rf"{text(name)} \- {text(summary)}")


def overview() -> str:
    """Return the source of rwkvctl(1)."""
    lines = [
        *head("rwkvctl", 1, "measure RWKV-7 checkpoints on this node's GPUs"),
        ".SH SYNOPSIS",
        r"\fBrwkvctl\fR \fIVERB\fR [\fIarguments\fR] [\fIflags\fR]",
        ".SH DESCRIPTION",
        text(ABOUT),
        ".SH VERBS",
    ]  # fmt: skip
    for verb in load_all():
        lines += [".TP", rf"\fB{text(verb.words)}\fR", text(verb.summary)]
    return finished([*lines, *exit_codes(), *environment(), *files(), *see_also("rwkvctl.toml(5), rwkvctl-daemon(8)")])


def page_of(verb: Verb) -> str:
    """Return the source of rwkvctl-VERB(1)."""
    return finished([
        *head(f"rwkvctl-{verb.words.replace(' ', '-')}", 1, verb.summary.rstrip(".").replace("`", "")),
        *body(verb),
        *common(),
        *see_also("rwkvctl(1)"),
    ])  # fmt: skip


def body(verb: Verb) -> Iterator[str]:
    """Synopsis, description, options and examples of a verb."""
    yield from (
        ".SH SYNOPSIS",
        rf"\fBrwkvctl {text(verb.words)}\fR{text(' '.join(['', *usage(verb)]))}",
        ".SH DESCRIPTION",
    )
    yield from paragraphs(f"{verb.summary}\n\n{verb.text}".strip())
    if verb.options:
        yield ".SH OPTIONS"
    for option in verb.options:
        yield from described(option)
    if verb.examples:
        yield ".SH EXAMPLES"
    for example in verb.examples:
        yield from (".PP", ".nf", rf"\fB{text(example)}\fR", ".fi")


def described(option: Option) -> Iterator[str]:
    """Yield an argument or flag with its help and its choices."""
    value = "" if option.kind is None else rf" \fI{text(metavar(option))}\fR" + (" ..." if option.many else "")
    names = ", ".join(rf"\fB{text(flag)}\fR" for flag in option.flags)
    yield from (".TP", names + value if option.flags else value.strip(), text(option.help))
    if option.choices and metavar(option) != "|".join(option.choices):
        yield text(f"One of: {', '.join(option.choices)}.")


def common() -> Iterator[str]:
    """Yield the COMMON OPTIONS section: the flags that every verb has."""
    yield from (".SH COMMON OPTIONS", ".TP", r"\fB\-o\fR, \fB\-\-output\fR table|json|tsv")
    yield text("table (on a terminal), tsv (in a pipe), or json")
    for flag, settings in COMMON:
        value = rf" \fI{settings['metavar']}\fR" if "metavar" in settings else ""
        yield from (".TP", rf"\fB{text(flag)}\fR{value}", text(settings["help"]))


def daemon() -> str:
    """Return the source of rwkvctl-daemon(8)."""
    (verb,) = (found for found in load_all() if found.words == "daemon")
    return finished([
        *head("rwkvctl-daemon", 8, "the node's daemon"),
        *body(verb),
        ".SH AS A SERVICE",
        *paragraphs(SERVICE),
        ".SH SIGNALS",
        *terms(SIGNALS.items()),
        ".SH EXIT STATUS",
        *terms((str(code.value), EXIT_CODES[code]) for code in (Exit.OK, Exit.FAILED, Exit.USAGE, Exit.REFUSED)),
        *environment(),
        *files(),
        *see_also("rwkvctl(1), rwkvctl.toml(5), rwkvctl-service-install(1), rwkvctl-doctor(1), systemctl(1)"),
    ])  # fmt: skip


def configuration() -> str:
    """Return the source of rwkvctl.toml(5)."""
    lines = [
        *head("rwkvctl.toml", 5, "configuration of rwkvctl"),
        ".SH DESCRIPTION",
        *paragraphs(CONFIGURATION),
        ".SH SETTINGS",
    ]
    for field in dataclasses.fields(Settings):
        restart = " Needs a restart of the daemon." if field.metadata["restart"] else ""
        lines += setting(field.name, field.default, f"{sentence(field.metadata['help'])}{restart}")
    for title, fields, about in TABLES:
        lines += [f".SH {text(title)}", text(about)]
        for field in fields:
            lines += setting(field.name, field.default, sentence(field.metadata["help"]))
    lines += [".SH OTHER TABLES", *terms(OTHER_TABLES.items())]
    lines += [".SH EVENTS", text("Events for [[notify]]:"), *terms(EVENTS.items())]
    lines += [".SH EXAMPLE", ".nf", *map(text, EXAMPLE.rstrip("\n").split("\n")), ".fi"]
    return finished([*lines, *files(), *see_also("rwkvctl(1), rwkvctl-daemon(8), rwkvctl-reload(1)")])


def setting(name: str, default: object, about: str) -> list[str]:
    """Return the man source of one setting: its name, default and description."""
    return [".TP", rf"\fB{text(name)}\fR = {text(toml(default))}", text(about)]


def toml(value: object) -> str:
    """Return a default as a TOML value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return "[]" if isinstance(value, tuple) else str(value)


def sentence(words: str) -> str:
    """Return a help text with a capital letter and a full stop."""
    return f"{words[:1].upper()}{words[1:]}."


def exit_codes() -> Iterator[str]:
    """Yield the EXIT STATUS section with every exit code."""
    yield ".SH EXIT STATUS"
    yield from terms((str(code.value), meaning) for code, meaning in EXIT_CODES.items())


def environment() -> Iterator[str]:
    """Yield the ENVIRONMENT section with the variables that are read."""
    yield ".SH ENVIRONMENT"
    yield from terms((
        ("RWKVCTL_HOME, RWKVCTL_SOCKET, ...", "settings by name; see rwkvctl.toml(5)"),
        ("NO_COLOR, FORCE_COLOR", "no colour; colour in a pipe as well"),
        (", ".join(sorted(MARKERS)), "internal: marks of worker processes and switches of tests"),
    ))  # fmt: skip


def files() -> Iterator[str]:
    """Yield the FILES section with every entry of FILES."""
    yield ".SH FILES"
    yield from terms(FILES)


def see_also(names: str) -> Iterator[str]:
    """Yield the SEE ALSO section with `names` as its text."""
    yield from (".SH SEE ALSO", text(names))


def terms(pairs: Any) -> Iterator[str]:
    """Yield the man source of a list of terms, each with its meaning."""
    for term, meaning in pairs:
        yield from (".TP", rf"\fB{text(term)}\fR", text(meaning))


def paragraphs(words: str) -> Iterator[str]:
    """Yield the man source of paragraphs, which blank lines separate in `words`."""
    for paragraph in words.split("\n\n"):
        yield from (".PP", text(" ".join(paragraph.split())))


ESCAPES: Final = str.maketrans(
    {"\\": r"\e", "-": r"\-", "'": r"\(aq", "`": r"\(ga", "^": r"\(ha", "~": r"\(ti", '"': r"\(dq"}
)
"""Characters that groff would obey, or draw as others that a shell does not take."""


def text(words: str) -> str:
    """Return words escaped for groff, in any encoding, even if they begin a line with a full stop."""
    safe = "".join(mark if mark.isascii() else rf"\[u{ord(mark):04X}]" for mark in words.translate(ESCAPES))
    return rf"\&{safe}" if safe.startswith(".") else safe


def finished(lines: list[str]) -> str:
    """Join the lines of a page; the last one ends with a newline, too."""
    return "\n".join(lines) + "\n"
