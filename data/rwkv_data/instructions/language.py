"""The language of a text: langdetect 1.0.9 (a port of Nakatani Shuyo's library), made repeatable.

langdetect draws n-grams at random and keeps its seed in the class, for every user of the process. Here each text has
a detector of its own whose generator starts from seed 0, so that a label depends on nothing but the text, whatever
thread asks and whatever was asked before. Upper-cased English is taken for another language now and then (9 of 541
prompts), as upstream.
"""

import functools
from pathlib import Path
from typing import Any

_LONGEST = 100_000  # langdetect itself reads the first 10,000 characters; this bounds what it cleans before


@functools.cache
def _factory() -> Any:
    """Return the 55 profiles of the package, sorted by name (langdetect uses the order of the folder)."""
    from langdetect.detector_factory import PROFILES_DIRECTORY, DetectorFactory  # type: ignore[import-untyped]

    factory = DetectorFactory()
    profiles = sorted(path for path in Path(PROFILES_DIRECTORY).iterdir() if not path.name.startswith("."))
    factory.load_json_profile([path.read_text(encoding="utf-8") for path in profiles])
    factory.set_seed(0)
    return factory


def detect(text: str) -> str | None:
    """Return the code of a text's language (ISO 639-1, "zh-cn", "unknown"); None if it has no feature of any
    language."""
    from langdetect.lang_detect_exception import LangDetectException  # type: ignore[import-untyped]

    detector = _factory().create()
    try:
        detector.append(text[:_LONGEST])
        return str(detector.detect())
    except LangDetectException:
        return None


def is_in(text: str, language: str) -> bool:
    """Whether a text is in a language. As upstream, a text whose language cannot be detected counts as being in it."""
    return detect(text) in {language, None}
