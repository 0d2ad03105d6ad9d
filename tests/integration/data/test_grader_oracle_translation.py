"""translation-v1 against sacrebleu's own corpus scores."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rwkv_data.definition.answer import Answer
from rwkv_data.graders.translation import corpus, grade, tokenizer

metrics = pytest.importorskip("sacrebleu.metrics", reason="needs sacrebleu: not installed")

PAIRS = {
    "de": [
        ("Der Hund lief über die Straße.", "Der Hund lief über die Strasse, schnell."),
        ("Ich habe keine Zeit.", "Ich habe heute keine Zeit."),
        ("", "Nichts davon."),
        ("Ja!", "Ja!"),
    ],
    "zh_CN": [("今天天气很好。", "今天的天气真好。"), ("我不知道", "我不知道这件事。")],
    "jpn_Jpan": [("今日はいい天気です。", "今日は天気がいいです。"), ("はい", "いいえ")],
}


def _ours(pairs: list[tuple[str, str]], target: str) -> dict[str, float]:
    return corpus([grade({"answer": reference, "target": target}, Answer(said)).parts for said, reference in pairs])


def _theirs(pairs: list[tuple[str, str]], target: str) -> dict[str, float]:
    said, references = [pair[0] for pair in pairs], [[pair[1] for pair in pairs]]
    return {
        "bleu": metrics.BLEU(tokenize=tokenizer(target)).corpus_score(said, references).score,
        "chrf++": metrics.CHRF(word_order=2).corpus_score(said, references).score,
    }


@pytest.mark.parametrize("target", PAIRS)
def test_sums_make_the_corpus_score(target: str) -> None:
    assert _ours(PAIRS[target], target) == pytest.approx(_theirs(PAIRS[target], target))


WORDS = st.lists(
    st.sampled_from(["der", "hund", "über", "die", "straße", ".", ",", "nicht", "3,5", "$5"]), max_size=8
).map(" ".join)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(WORDS, WORDS.filter(bool)), min_size=1, max_size=5))
def test_any_corpus(pairs: list[tuple[str, str]]) -> None:
    assert _ours(pairs, "de") == pytest.approx(_theirs(pairs, "de"))


def test_single_segments() -> None:
    exact = grade({"answer": "Ja, gern.", "target": "de"}, Answer("<think>?</think> Ja, gern.\n"))
    assert (exact.value, exact.reason) == (1.0, "right")
    partial = grade({"answer": "Ja, gern.", "target": "de"}, Answer("Ja."))
    assert 0 < partial.value < 1
    assert partial.value * 100 == pytest.approx(metrics.CHRF(word_order=2).sentence_score("Ja.", ["Ja, gern."]).score)
    empty = grade({"answer": "Ja."}, Answer(""))
    assert (empty.value, empty.reason) == (0.0, "no_answer")
    assert empty.parts["bleu.1"] > 0
    assert corpus([]) == {"bleu": 0.0, "chrf++": 0.0}


@pytest.mark.parametrize(
    ("target", "name"),
    [("zh", "zh"), ("zho_Hans", "zh"), ("ja-JP", "char"), ("de_DE", "13a"), ("", "13a"), ("kor_Hang", "char")],
)
def test_tokenisers(target: str, name: str) -> None:
    assert tokenizer(target) == name
