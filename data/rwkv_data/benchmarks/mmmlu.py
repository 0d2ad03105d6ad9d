"""MMMLU: the 14,042 questions of MMLU in 14 languages, translated by people (OpenAI 2024).

    test/mmlu_DE-DE.csv: (number), Question, A, B, C, D, Answer, Subject

The catch: read as csv the words "None" and "N/A" stay words, which the `datasets` library turns into nothing. The
group of a row is its language; the subject is in the row. The English opening of the profile goes to every language,
as in rwkv-skills, so that languages differ in the question alone. rwkv-skills' later branches ask a fifth of the rows:
here that is `--set k=0.2`.
"""

from typing import Any

from rwkv_data import rows
from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, Row, by_name
from rwkv_data.definition.errors import RowError
from rwkv_data.prepare.row_shapes.choice_rows import check_four, of_columns, subject_of
from rwkv_data.prepare.sources.raw import FILE
from rwkv_data.profiles.multi_choice import multi_choice_cot, multi_choice_plain
from rwkv_data.profiles.multi_choice_v2 import multi_choice_v2

LANGUAGES = "AR_XY BN_BD DE_DE ES_LA FR_FR HI_IN ID_ID IT_IT JA_JP KO_KR PT_BR SW_KE YO_NG ZH_CN"


def from_source(raw: Row) -> dict[str, Any]:
    """Return the choice row with the language that the file's name gives, such as `DE_DE`."""
    language = str(rows.first(raw, "language", FILE) or "").removeprefix("mmlu_").replace("-", "_")
    return of_columns(raw, subject_of(raw)) | {"language": language}


def check_row(row: Row) -> None:
    """Check that a row has four choices and a known language. Raises RowError."""
    check_four(row)
    if row.get("language") not in LANGUAGES.split():
        raise RowError(f"'language' is {rows.shown(row.get('language'))}, none of {LANGUAGES}")


_GERMAN = {
    "question": "Welche Zahl ist gerade?",
    "choices": ["1", "2", "3", "5"],
    "answer": "B",
    "subject": "elementary_mathematics",
    "language": "DE_DE",
}

BENCHMARK = Benchmark(
    name="mmmlu",
    version=1,
    domain="multi_choice",
    title="MMMLU, MMLU in 14 languages",
    licence="MIT",
    split="test",
    rows=196588,
    source=HubSource("openai/MMMLU", "default", "test", files=("test/mmlu_*.csv",)),
    from_source=from_source,
    check_row=check_row,
    local_files=("test/mmlu_*.csv", "mmlu_*.csv"),
    schema_verified=False,
    kinds=by_name(
        [
            multi_choice_plain(group_by="language"),
            multi_choice_cot(group_by="language"),
            *multi_choice_v2(group_by="language"),
        ]
    ),
    examples=(
        Example(_GERMAN, Answer(logprobs=(-2.0, -0.5, -1.5, -3.0)), 1.0),
        Example(_GERMAN, Answer(logprobs=(-0.1, -0.5, -1.5, -3.0)), 0.0),
    ),
)
