"""The catalogue's names for the data sets and tasks of rwkv-skills."""

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from rwkv_daemon.import_rwkv_skills.imported_score import ImportedScore
from rwkv_daemon.rules.plan import SelectionError, slug

ALIASES: Final[Mapping[str, str]] = {
    "minerva_math": "minerva_ocw", "comp_math_24_25": "comp_math_24_25", "gpqa": "gpqa", "gpqa_main": "gpqa",
    "humanevalplus": "human_eval_plus", "humaneval_plus": "human_eval_plus", "humanevalfix": "human_eval_fix",
    "humaneval_cn": "human_eval_cn", "humaneval": "human_eval", "lcb": "livecodebench", "ceval_exam": "ceval",
}  # fmt: skip
"""Names of rwkv-skills that mean another set here: its `minerva_math` is the 272 problems of MIT OpenCourseWare."""

TASKS: Final[Mapping[str, str]] = {
    "multiple_choice": "multi_choice_plain", "multiple_choice_cot": "multi_choice_cot",
    "multi_choice": "multi_choice_plain", "multi_choice_plain": "multi_choice_plain",
    "multi_choice_cot": "multi_choice_cot", "multi_choice_fake_cot": "multi_choice_fake_cot",
    "free_response": "free_response", "free_response_judge": "free_response_judge",
    "instruction_following": "instruction_following", "code_humaneval": "code_human_eval",
    "code_human_eval": "code_human_eval", "code_mbpp": "code_mbpp", "code_livecodebench": "code_livecodebench",
}  # fmt: skip
"""Its task and evaluator names, without `eval_`, and the kinds that they are here."""

BY_METRIC: Final = (
    ("prompt_accuracy", "instruction_following"), ("judge_accuracy", "free_response_judge"),
    ("exact_accuracy", "free_response"),
)  # fmt: skip

BY_SET: Final = {
    True: ("multi_choice_cot", "free_response", "free_response_judge"),
    False: ("multi_choice_plain", "instruction_following", "code_human_eval", "code_mbpp", "code_livecodebench",
            "free_response"),
}  # fmt: skip
"""With a chain of thought or without: kinds by which a score is identified that names neither task nor metric; the
first one that its set has."""

EPOCH: Final = re.compile(r"\d{9,13}(\.\d*)?")
MILLISECONDS: Final = 1e11
"""A larger number counts milliseconds since 1970, not seconds."""

CHINA: Final = timezone(timedelta(hours=8))
"""The zone of times without one (rwkv-skills.md 7.2); China has no summer time since 1991."""


def benchmark_of(dataset: str, known: set[str]) -> str:
    """Return the catalogue's name of a data set; one that is not in the catalogue keeps its own."""
    text = re.sub(r"[^0-9a-z]+", "_", dataset.lower()).strip("_").removesuffix("_cot").rstrip("_") or "unknown"
    for spelling in spellings(text):
        try:
            return slug(ALIASES.get(spelling, spelling), known, "dataset")
        except SelectionError:
            continue
    return text


def spellings(text: str) -> Iterable[str]:
    """Yield the name, and the name without its last word, which may be a split."""
    return dict.fromkeys([text, text.rpartition("_")[0] or text])


def kind_of(imported: ImportedScore, known: Collection[str] = ()) -> str:
    """Return the kind of a score: what its task says, else its metrics, else the one among `known` (the kinds of its
    set) that fits its chain of thought."""
    task = imported.task.removeprefix("eval_")
    if task in TASKS:
        return TASKS[task]
    for metric, kind in BY_METRIC:
        if metric in imported.metrics:
            return kind
    if imported.cot is not None and (of_set := next((kind for kind in BY_SET[imported.cot] if kind in known), "")):
        return of_set
    if "accuracy" in imported.metrics and imported.cot is not None:
        return "multi_choice_cot" if imported.cot else "multi_choice_plain"
    return {True: "cot", False: "plain"}.get(bool(imported.cot), "") if imported.cot is not None else "unknown"


def moment(text: str) -> str:
    """Return a time as the store spells it; empty if it is none. `20250102030405`, and seconds or milliseconds since
    1970, are accepted."""
    try:
        found = numeric(text) if re.match(r"\d{9}", text) else datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return ""
    aware = found if found.tzinfo else found.replace(tzinfo=CHINA)
    try:
        return aware.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return ""


def numeric(text: str) -> datetime:
    """Return the time that digits mean. Raises ValueError, OverflowError or OSError."""
    if re.fullmatch(r"\d{14}", text):
        return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=CHINA)
    if not EPOCH.fullmatch(text):
        raise ValueError(text)
    number = float(text)
    return datetime.fromtimestamp(number / 1000 if number >= MILLISECONDS else number, tz=UTC)
