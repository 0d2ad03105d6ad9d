"""FLORES+ devtest: 1,012 sentences in six languages, each translated into every other (Costa-jussà et al. 2022, arXiv
2207.04672; kept up as openlanguagedata/flores_plus).

Rows: see rwkv_data.prepare.row_shapes.translation_rows; prompts: rwkv_data.profiles.translation. English, German,
Spanish, French, Italian and Japanese make 30 pairs, 30,360 translations; `--set k=0.1` asks a tenth of them, always the
same ones.

The catch: the set is gated, and its authors ask that nobody trains on it or puts its text where it will be crawled. Of
its more than 200 languages these are the six that rwkv-skills prepares. BLEU's tokeniser depends on the language, so
BLEU of all pairs together says little.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, by_name
from rwkv_data.prepare.row_shapes.translation_rows import FLORES, check_row, flores_pairs, flores_row
from rwkv_data.profiles.translation import translation

_HOUSE = {
    "question": "The house is small.",
    "answer": "La casa è piccola.",
    "source_language": "English",
    "target_language": "Italian",
    "target": "ita_Latn",
    "pair": "eng_Latn-ita_Latn",
    "domain": "wikinews",
    "id": "0",
}

BENCHMARK = Benchmark(
    name="flores200",
    version=1,
    domain="instruction_following",
    title="FLORES+, six languages into each other",
    licence="CC BY-SA 4.0",
    split="devtest",
    rows=30360,
    source=HubSource("openlanguagedata/flores_plus", next(iter(FLORES)), "devtest", configs=tuple(FLORES), gated=True),
    from_source=flores_row,
    expand=flores_pairs,
    check_row=check_row,
    local_files=("devtest/*.jsonl", "devtest/*.parquet", "devtest.jsonl"),
    kinds=by_name([translation(max_tokens=512, sentences=True)]),
    examples=(
        Example(_HOUSE, Answer(" La casa è piccola.", ("stop_suffix",)), 1.0),
        Example(_HOUSE, Answer(" 42", ("stop_suffix",)), 0.0),
    ),
    schema_verified=False,
)
