"""A variant is its sample with a piece taken out: what tells that it is a variant of just this sample."""

from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.recipes.make_rows import is_part
from rwkv_data import writers
from rwkv_data.writers.split_thoughts import parts

TEXT = st.text(st.sampled_from("ab \n"), max_size=12)


@given(TEXT, TEXT, TEXT)
def test_a_text_with_a_piece_taken_out_is_part_of_it(begin: str, piece: str, end: str) -> None:
    assert is_part(begin + end, begin + piece + end)


@given(TEXT, TEXT)
def test_nothing_else_is(variant: str, whole: str) -> None:
    ways = any(whole.startswith(variant[:at]) and whole.endswith(variant[at:]) for at in range(len(variant) + 1))
    assert is_part(variant, whole) == (ways and len(variant) <= len(whole))


def test_a_shortened_completion_is_part_of_it_in_both_forms() -> None:
    for completion in (
        "<think>one\n\ntwo\n\nthree</think>\n\n So it is \\boxed{3}. ",
        "<|begin_of_thought|> one two three <|end_of_thought|>\n<|begin_of_solution|> \\boxed{3} <|end_of_solution|>",
    ):
        found = parts(completion)
        assert "".join(found) == completion
        ends = writers.SPLIT_RULE.read(found.reasoning, found.reasoning.replace("two", "two <|end_of_answer|>"))
        assert [found.reasoning[:end].split()[-1] for end in ends] == ["two", "three"]
        assert all(is_part(found.shortened(end), completion) for end in ends)
        assert found.shortened(ends[-1]) == completion
        assert "three" not in found.shortened(ends[0])
