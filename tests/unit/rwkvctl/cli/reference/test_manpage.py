"""The manual: a page for every verb and every setting, and nothing that groff would obey by mistake."""

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.cli.reference.manpage import pages, text
from rwkvctl.cli.registry import load_all
from rwkvctl.settings.fields import Settings
from rwkvctl.settings.notify import EVENTS, NotifyTarget

PAGES = pages()
REQUEST = re.compile(r"\.(TH|SH|TP|PP|nf|fi|nh|ad)\b")


def plain(page: str) -> str:
    return re.sub(r"\\f[BIR]|\\&", "", page).replace(r"\-", "-").replace(r"\e", "\\").replace(r"\(dq", '"')


def test_every_verb_has_a_page() -> None:
    names = {name.rpartition(".")[0] for name in PAGES}
    wanted = {f"rwkvctl-{verb.words.replace(' ', '-')}" for verb in load_all()}
    assert names == wanted | {"rwkvctl", "rwkvctl.toml"}


@pytest.mark.parametrize("name", PAGES)
def test_only_known_requests_begin_a_line(name: str) -> None:
    page = PAGES[name]()
    assert page.startswith('.TH "RWKVCTL')
    assert [line for line in page.splitlines() if line[:1] in {".", "'"} and not REQUEST.match(line)] == []


def test_a_verbs_page_has_every_flag_and_example() -> None:
    for verb in load_all():
        page = plain(PAGES[f"rwkvctl-{verb.words.replace(' ', '-')}.{8 if verb.words == 'daemon' else 1}"]())
        assert all(flag in page for option in verb.options for flag in option.flags), verb.words
        assert all(example[:20].replace("'", r"\(aq").replace("~", r"\(ti") in page for example in verb.examples)


def test_the_configurations_page_has_every_setting_and_event() -> None:
    page = plain(PAGES["rwkvctl.toml.5"]())
    names = {f.name for f in dataclasses.fields(Settings)} | {f.name for f in dataclasses.fields(NotifyTarget)}
    assert all(f"\n{name} = " in page for name in names)
    assert all(f"\n{event}\n" in page for event in EVENTS)
    assert page.count("Needs a restart of the daemon.") >= 3


@given(st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=40))
def test_no_words_are_taken_for_requests(words: str) -> None:
    safe = text(words)
    assert not safe.startswith((".", "'"))
    assert safe.isascii()
    assert re.fullmatch(r"(?:[^\\]|\\[e&-]|\\\((?:aq|ga|ha|ti|dq)|\\\[u[0-9A-F]{4,6}\])*", safe)
