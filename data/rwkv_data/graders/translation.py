"""translation-v1: the statistics of each translated segment for BLEU and chrF++, by sacrebleu.

The value is the segment's own chrF++ (Popović 2017) over 100, for looking at single samples. The score of a corpus is
no mean of those: `corpus` takes the sums of the parts (`bleu.0` ... the lengths and matches, `chrf.0` ... the counts),
and equals sacrebleu's corpus_score on all segments. BLEU's tokeniser follows the target language (`target` of the row):
"zh" for Chinese, "char" for Japanese, Korean, Thai, Lao, Khmer and Burmese, else "13a".
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.stage import Row
from rwkv_data.graders.extract import after_thinking

_BY_CHARACTER = ("ja", "jpn", "ko", "kor", "th", "tha", "lo", "lao", "km", "khm", "my", "mya")
_LONGEST = 20_000


def grade(row: Row, answer: Answer) -> Grade:
    """Grade one segment by its statistics. An empty translation counts as the worst one, and as no answer."""
    reference, predicted = str(row["answer"]), after_thinking(answer.text).strip()[:_LONGEST]
    bleu, chrf = _metrics(tokenizer(str(row.get("target") or "")))
    parts = _named("bleu", bleu, predicted, reference) | _named("chrf", chrf, predicted, reference)
    value = chrf.sentence_score(predicted, [reference]).score / 100
    if not predicted:
        return Grade(value, None, reference, "no_answer", parts=parts)
    return Grade(value, predicted, reference, "right" if value == 1 else "wrong", route="all", parts=parts)


def corpus(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return BLEU and chrF++ (0 to 100) of many segments, from their parts."""
    sums: dict[str, float] = {}
    for sample in parts:
        for name, value in sample.items():
            sums[name] = sums.get(name, 0.0) + value
    bleu, chrf = _metrics("13a")
    return {"bleu": _score(bleu, "bleu", sums), "chrf++": _score(chrf, "chrf", sums)}


def tokenizer(target: str) -> str:
    """Return sacrebleu's tokeniser for a target language, given as a code such as "de", "zh_CN", "zho_Hans"."""
    language = target.replace("-", "_").partition("_")[0].lower()
    if language in {"zh", "zho", "cmn", "yue"}:
        return "zh"
    return "char" if language in _BY_CHARACTER else "13a"


def _metrics(tokenize: str) -> tuple[Any, Any]:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    return BLEU(tokenize=tokenize), CHRF(word_order=2)


def _named(name: str, metric: Any, predicted: str, reference: str) -> dict[str, float]:
    [counts] = metric._extract_corpus_statistics([predicted], [[reference]])  # there is no public way
    return {f"{name}.{index}": float(count) for index, count in enumerate(counts)}


def _score(metric: Any, name: str, sums: Mapping[str, float]) -> float:
    counts = [int(sums[f"{name}.{index}"]) for index in range(sum(key.startswith(f"{name}.") for key in sums))]
    return float(metric._compute_score_from_stats(counts).score) if counts else 0.0


GRADER = Grader.of("translation-v1", "1+sacrebleu-2", grade)
