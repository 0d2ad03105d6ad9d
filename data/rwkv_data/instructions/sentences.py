"""Sentences of an English text, as IFEval and IFBench count them.

NLTK's `punkt_tab` is used where it lies in one of NLTK's folders (`NLTK_DATA`, `~/nltk_data`, `/usr/share/nltk_data`
...); its data is not ours to ship. Otherwise the same algorithm runs with the small model below: common English
abbreviations and words that often start sentences. `SPLITTER` says which of the two this process uses; it belongs to
the version of every grader that counts sentences.
"""

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rwkv_data.instructions import punkt
from rwkvctl import config

_TITLES = "adm brig capt cmdr col cpl dr fr gen gov hon lt maj messrs mr mrs ms mt prof rep rev sen sgt sr jr st supt"
_FIRMS = "bros cie co corp inc ltd plc dept univ assn"
_MONTHS_AND_DAYS = "jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri sat sun"
_PLACES = "ave blvd rd sq u.s u.k u.n e.u u.s.a d.c n.y l.a ariz calif colo conn fla ill mass mich minn okla ore pa tenn tex va vt wash wis"
_TEXTS = "al approx ca cf ch chap ed eds eg e.g ex fig figs ie i.e ibid min no nos op p pp ref sec ser trans viz vol vols vs v"
_TIMES = "a.m p.m a.d b.c b.c.e c.e hr hrs min sec yr yrs"
_DEGREES = "b.a b.s m.a m.b.a m.d ph.d j.d"
_STARTERS = (
    "a after all although an and as at because but by during each even every few finally first for from he hence her "
    "here his how however i if in indeed it its later many meanwhile most moreover my no now on once one only our "
    "perhaps she since so some still such that the their then there therefore these they this those though thus to "
    "today under until we what when where whether while who why with yet you your"
)

BUNDLED: Final = punkt.Model(
    name="bundled",
    abbreviations=frozenset(
        " ".join((_TITLES, _FIRMS, _MONTHS_AND_DAYS, _PLACES, _TEXTS, _TIMES, _DEGREES)).split()
    ),
    starters=frozenset(_STARTERS.split()),
)


def load(folder: Path) -> punkt.Model:
    """The model in a folder of `punkt_tab`. Raises OSError or ValueError where it is not whole."""
    pairs = [tuple(line.split("\t")) for line in _lines(folder / "collocations.tab")]
    return punkt.Model(
        name="punkt_tab",
        abbreviations=frozenset(_lines(folder / "abbrev_types.txt")),
        starters=frozenset(_lines(folder / "sent_starters.txt")),
        collocations=frozenset((first, second) for first, second in pairs),
        seen={word: int(bits) for word, bits in (line.split("\t") for line in _lines(folder / "ortho_context.tab"))},
    )


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _nltk_folders() -> Iterator[Path]:
    """Where NLTK looks for its data, in its order."""
    yield from config.folders_of("NLTK_DATA")
    yield Path.home() / "nltk_data"
    yield from (Path(sys.prefix, *tail, "nltk_data") for tail in ((), ("share",), ("lib",)))
    yield from (Path(root, "nltk_data") for root in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib"))


@functools.cache
def current() -> punkt.Model:
    """The model of this process: the first whole `punkt_tab`, or the bundled one."""
    for folder in _nltk_folders():
        try:
            return load(folder / "tokenizers" / "punkt_tab" / "english")
        except (OSError, ValueError):  # absent, unreadable or damaged: NLTK could not use it either
            continue
    return BUNDLED


@functools.lru_cache(maxsize=32)
def split(text: str) -> tuple[str, ...]:
    """The sentences of a text. The rules of a prompt ask for those of the same few texts again and again."""
    return tuple(punkt.split(text, current()))


def splitter() -> str:
    """Which model splits sentences here: "punkt_tab" or "bundled"."""
    return current().name
