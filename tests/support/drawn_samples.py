"""Hypothesis strategies: the samples of a problem, with many equal lengths, and what their sentences may hold."""

from hypothesis import strategies as st

from rwkv_data.recipes.selection.problem_sample import ProblemSample


def one(number, tokens, value=1.0, *, cut_off=False, turn=None):
    return ProblemSample(number=number, turn=turn or (0, number), tokens=tokens, value=value, cut_off=cut_off)


_SAMPLE = st.builds(
    one, st.integers(0, 30), st.integers(1, 6), st.sampled_from([None, 0.0, 0.5, 1.0, 1.0]),
    cut_off=st.sampled_from([False, False, True]), turn=st.tuples(st.integers(0, 2), st.integers(0, 9)),
)  # fmt: skip
SAMPLES = st.lists(_SAMPLE, max_size=9, unique_by=(lambda sample: sample.number, lambda sample: sample.turn))
ROW_IDS = st.text(max_size=5)
PASS_RATES = st.none() | st.tuples(*[st.sampled_from([0, 0.1, 0.25, 0.3, 0.5, 0.6, 0.75, 1])] * 2).map(sorted)
