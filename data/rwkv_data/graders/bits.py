"""bits-v1: bits per byte of a text that was scored as a whole.

The value is that of the one document, and is not between 0 and 1. A corpus has the sums of the parts: `nats` (the
negative log-likelihood), `bytes` in UTF-8 and `words` as lm_eval counts them (pieces between white space): bits per
byte is nats / bytes / ln 2, perplexity per byte exp(nats / bytes), per word exp(nats / words).
"""

import math
import re

from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.stage import Row


def grade(row: Row, answer: Answer) -> Grade:
    """Grade by the bits per byte of the row's text. A missing score or a text without bytes is an error."""
    text = str(row["text"])
    size = len(text.encode())
    if len(answer.logprobs) != 1 or not math.isfinite(answer.logprobs[0]) or not size:
        return Grade(None, None, "", "error", f"one score of a text was due, got {list(answer.logprobs)}")
    nats = -answer.logprobs[0]
    parts = {"nats": nats, "bytes": float(size), "words": float(len(re.split(r"\s+", text)))}
    return Grade(nats / size / math.log(2), None, "", "right", parts=parts)


GRADER = Grader.of("bits-v1", "1", grade)
