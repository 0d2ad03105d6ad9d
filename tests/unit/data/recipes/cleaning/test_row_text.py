"""Which text of a benchmark's row is compared."""

import pytest

from rwkv_data.definition import registry
from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.recipes.cleaning.row_text import passages, whole_forms
from rwkv_data.recipes.cleaning.words import words_of

BENCHMARKS = [registry.load(name) for name in registry.names()]


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_the_text_of_every_benchmark_is_what_a_model_is_shown(benchmark: Benchmark) -> None:
    for example in benchmark.examples:
        texts = [words_of(text) for text in passages(example.row)]
        kind = benchmark.kinds[example.kind] if example.kind else benchmark.default_kind
        shown = words_of(" ".join(stage.prompt(example.row) for stage in kind.stages))
        asked = [choice for stage in kind.stages if stage.choices for choice in stage.choices(example.row)]
        assert texts[0], example.row
        assert texts[0] in shown or benchmark.name == "held_out_text", example.row  # a text that is all choice
        answers = [words_of(str(example.row.get("answer")))] if "target_language" in example.row else []
        known = [shown, *map(words_of, asked), *answers]
        # whether the asserts of MBPP are shown depends on the kind
        assert all(any(text in one for one in known) for text in texts[1:]) or "test_list" in example.row, example.row


def test_what_stands_beside_a_question() -> None:
    assert passages({"question": "Q", "choices": ["a", "b"], "answer": "A", "solution": "S"}) == ("Q", "a", "b")
    assert passages({"prompt": "P", "test_list": ["assert f()", "assert g()"], "code": "C"}) == (
        "P",
        "assert f() assert g()",
    )
    translated = {"question": "Haus", "answer": "house", "target_language": "English"}
    assert passages(translated) == ("Haus", "house")
    assert passages({"story": "once", "n": 3, "lines": ["a", 4]}) == ("once", "a")
    assert passages({"n": 3}) == ()


def test_a_row_with_choices_is_whole_with_and_without_letters() -> None:
    assert list(whole_forms(("q", "x", "y"))) == ["q", "q x y", "q a x b y"]
    assert list(whole_forms(("q",))) == ["q"]
    assert list(whole_forms(("", "x", ""))) == ["", "x", "a x b"]
