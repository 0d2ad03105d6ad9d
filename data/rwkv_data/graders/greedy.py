"""greedy-v1: whether greedy decoding gives the one scored continuation (LAMBADA's accuracy).

Parts, whose sums make the perplexity per word exp(-logprob / words): `logprob` in nats, and `words`, one a sample.
"""

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.stage import Row


def grade(row: Row, answer: Answer) -> Grade:
    """Grade as right if every token of the continuation was the likeliest one. If a score is missing, there is no
    verdict."""
    expected = str(row["answer"])
    if len(answer.logprobs) != 1 or len(answer.greedy) != 1 or answer.logprobs[0] != answer.logprobs[0]:
        return Grade(None, None, expected, "error", f"one score was due, got {list(answer.logprobs)}")
    right = answer.greedy[0]
    parts = {"logprob": answer.logprobs[0], "words": 1.0}
    return Grade(
        float(right), expected if right else None, expected, "right" if right else "wrong", route="greedy", parts=parts
    )


GRADER = Grader.of("greedy-v1", "1", grade)
