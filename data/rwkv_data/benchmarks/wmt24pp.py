"""WMT24++: English texts of four domains into German, Mexican Spanish, French, Italian and Japanese (Deutsch et al.
2025, arXiv 2502.12404): 5 of the set's 55 pairs, those that rwkv-skills prepares, 960 segments each.

Rows: see rwkv_data.prepare.row_shapes.translation_rows; prompts: rwkv_data.profiles.translation. The headline is chrF++
of the whole set, with BLEU beside it, both by sacrebleu and both for each pair.

The catch: the split is called "train"; 38 of a pair's 998 sources are marked as bad and left out, as the authors say.
`target` is the post-edited translation, which is what is compared with. BLEU's tokeniser depends on the language
(Japanese by characters), so BLEU of all pairs together says little.
"""

from rwkv_data.benchmark import Answer, Benchmark, Example, HubSource, by_name
from rwkv_data.prepare.row_shapes.translation_rows import WMT24PP, check_row, wmt24pp_row
from rwkv_data.profiles.translation import translation

_HOUSE = {
    "question": "The house is small.",
    "answer": "Das Haus ist klein.",
    "source_language": "English",
    "target_language": "German",
    "target": "de_DE",
    "pair": "en-de_DE",
    "domain": "literary",
    "id": "1/1",
}

BENCHMARK = Benchmark(
    name="wmt24pp",
    version=1,
    domain="instruction_following",
    title="WMT24++, English into five languages",
    licence="Apache-2.0",
    split="train",
    rows=4800,
    source=HubSource("google/wmt24pp", next(iter(WMT24PP)), "train", configs=tuple(WMT24PP)),
    from_source=wmt24pp_row,
    check_row=check_row,
    local_files=("en-*.jsonl", "train.jsonl", "test.jsonl"),
    kinds=by_name([translation(max_tokens=1024, sentences=False)]),
    examples=(
        Example(_HOUSE, Answer(" Das Haus ist klein.", ("stop_suffix",)), 1.0),
        Example(_HOUSE, Answer(" 42", ("stop_suffix",)), 0.0),
        Example(_HOUSE, Answer("", ("stop_token",)), 0.0),
    ),
    schema_verified=False,
)
