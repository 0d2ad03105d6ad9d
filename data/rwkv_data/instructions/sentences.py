"""Sentences of an English text, as IFEval and IFBench count them.

NLTK's `punkt_tab` is used where it lies in one of NLTK's folders (`NLTK_DATA`, `~/nltk_data`, `/usr/share/nltk_data`
...); its data is not ours to ship. Otherwise the same algorithm runs with the small model below: common English
abbreviations (without "i.e." and "e.g.", behind which `punkt_tab` ends a sentence) and words that often start one. Both
count the same number of sentences in 99 of 100 texts (2,929 of 2,954: prompts and responses of IFEval and IFBench,
solutions of GSM8K and MATH-500). `splitter` says which one this process uses; it belongs to the version of every
grader that counts sentences.
"""

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rwkv_data.instructions import punkt
from rwkvctl.settings import config

_TITLES = "adm brig capt cmdr col cpl dr gen gov hon lt maj messrs mr mrs ms mt prof rep reps rev sen sgt sr jr st"
_FIRMS = "bros cie co corp inc ltd plc dept univ assn"
_MONTHS_AND_DAYS = "jan feb apr aug sep sept oct nov dec tue tues wed thu thurs fri"
_PLACES = "ave blvd rd u.s u.k u.n e.u u.s.a d.c n.y l.a ala ariz calif colo conn fla minn okla pa tenn va vt wis"
_TEXTS = "al approx ca cf chap ed eds fig figs ibid pp vol vols vs v"
_TIMES = "a.m p.m a.d b.c b.c.e c.e hr hrs yr yrs"
_DEGREES = "b.a b.s m.a m.b.a m.d ph.d j.d"
_STARTERS = (
    "a after all although an and are as at because but by can do does during each even every few finally first for "
    "from he hence her here his how however i if in indeed is it its later let many meanwhile most moreover my next no "
    "now of on once one only or our perhaps she since so some still such that the their then there therefore these "
    "they this those though three thus to today two under until was we what when where whether which while who why "
    "will with you your"
)

BUNDLED: Final = punkt.Model(
    name="bundled",
    abbreviations=frozenset(" ".join((_TITLES, _FIRMS, _MONTHS_AND_DAYS, _PLACES, _TEXTS, _TIMES, _DEGREES)).split()),
    starters=frozenset(_STARTERS.split()),
    seen=dict.fromkeys(_STARTERS.split(), punkt.LOWER_BUT_FIRST),
)


def load(folder: Path) -> punkt.Model:
    """Return the model in a folder of `punkt_tab`. Raises OSError or ValueError if it is incomplete."""
    pairs = [tuple(line.split("\t")) for line in _lines(folder / "collocations.tab")]
    return punkt.Model(
        name="punkt_tab",
        abbreviations=frozenset(_lines(folder / "abbrev_types.txt")),
        starters=frozenset(_lines(folder / "sent_starters.txt")),
        collocations=frozenset((first, second) for first, second in pairs),
        seen={word: int(bits) for word, bits in (line.split("\t") for line in _lines(folder / "ortho_context.tab"))},
    )


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def _nltk_folders() -> Iterator[Path]:
    """Yield the folders in which NLTK looks for its data, in its order."""
    yield from config.folders_of("NLTK_DATA")
    yield Path.home() / "nltk_data"
    yield from (Path(sys.prefix, *tail, "nltk_data") for tail in ((), ("share",), ("lib",)))
    yield from (Path(root, "nltk_data") for root in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib"))


@functools.cache
def current() -> punkt.Model:
    """Return the model of this process: the first complete `punkt_tab`, or the bundled one."""
    for folder in _nltk_folders():
        try:
            return load(folder / "tokenizers" / "punkt_tab" / "english")
        except (OSError, ValueError):  # absent, unreadable or damaged: NLTK could not use it either
            continue
    return BUNDLED


@functools.lru_cache(maxsize=32)
def split(text: str) -> tuple[str, ...]:
    """Return the sentences of a text. Cached, because the rules of a prompt split the same few texts repeatedly."""
    return tuple(punkt.split(text, current()))


def splitter() -> str:
    """Return the name of the model that splits sentences here: "punkt_tab" or "bundled"."""
    return current().name
