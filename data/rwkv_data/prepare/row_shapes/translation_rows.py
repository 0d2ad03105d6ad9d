"""Rows of translation sets: a text, its translation, and which languages they are in.

wmt24pp      {"lp": "en-de_DE", "domain": "news", "document_id": "...", "segment_id": 3, "is_bad_source": false,
              "source": "...", "target": "...", "original_target": "..."}
flores_plus  {"id": 0, "iso_639_3": "deu", "iso_15924": "Latn", "text": "...", "domain": "wikinews", ...}

prepared     {"question": source, "answer": reference, "source_language": "English", "target_language": "German",
              "target": "de_DE", "pair": "en-de_DE", ...}
"""

from collections.abc import Iterable, Iterator
from itertools import permutations
from typing import Any, Final

from rwkv_data.definition import rows
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.stage import Row

WMT24PP: Final = {
    "en-de_DE": "German",
    "en-es_MX": "Spanish (Mexico)",
    "en-fr_FR": "French",
    "en-it_IT": "Italian",
    "en-ja_JP": "Japanese",
}
"""The pairs that are asked, out of 55, with the language that is translated into."""
FLORES: Final = {
    "eng_Latn": "English",
    "deu_Latn": "German",
    "spa_Latn": "Spanish",
    "fra_Latn": "French",
    "ita_Latn": "Italian",
    "jpn_Jpan": "Japanese",
}
"""The languages that are translated into each other."""


def wmt24pp_row(raw: Row) -> dict[str, Any] | None:
    """Return the row of a segment; None for pairs that are not asked and for sources marked as bad by the set's
    authors."""
    pair = str(rows.first(raw, "lp", "_config", "_file") or "")
    if pair not in WMT24PP or raw["is_bad_source"]:
        return None
    return {
        "question": rows.text(raw, "source"),
        "answer": rows.text(raw, "target"),
        "source_language": "English",
        "target_language": WMT24PP[pair],
        "target": pair.partition("-")[2],
        "pair": pair,
        "domain": str(raw.get("domain") or ""),
        "id": f"{raw.get('document_id', '')}/{raw.get('segment_id', '')}",
    }


def flores_pairs(raws: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Yield every sentence in every language as a translation from every other one: pair after pair, each in the order
    of the sentences. A sentence that a language lacks is left out of its pairs."""
    texts: dict[str, dict[str, Row]] = {language: {} for language in FLORES}
    for raw in raws:
        language = flores_language(raw)
        if language in texts:
            texts[language][str(raw["id"])] = raw
    for source, target in permutations(FLORES, 2):
        for number, raw in texts[source].items():
            if number in texts[target]:
                yield {"id": number, "pair": (source, target), "source": raw, "target": texts[target][number]}


def flores_language(raw: Row) -> str:
    """Return the language as "deu_Latn": by the row's columns, else by its configuration or file."""
    if raw.get("iso_639_3") and raw.get("iso_15924"):
        return f"{raw['iso_639_3']}_{raw['iso_15924']}"
    return str(rows.first(raw, "_config", "_file") or "")


def flores_row(raw: Row) -> dict[str, Any]:
    """Return a translation from flores_pairs as a prepared row."""
    source, target = raw["pair"]
    return {
        "question": rows.text(raw["source"], "text"),
        "answer": rows.text(raw["target"], "text"),
        "source_language": FLORES[source],
        "target_language": FLORES[target],
        "target": target,
        "pair": f"{source}-{target}",
        "domain": str(raw["source"].get("domain") or ""),
        "id": raw["id"],
    }


def check_row(row: Row) -> None:
    """Check that a row is a question row between two different languages. Raises RowError."""
    rows.check_question(row)
    for name in ("source_language", "target_language", "target", "pair"):
        rows.text(row, name)
    if row["source_language"] == row["target_language"]:
        raise RowError(f"both languages are {row['source_language']}")
