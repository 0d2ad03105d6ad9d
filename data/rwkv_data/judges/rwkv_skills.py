r"""rwkv-skills-v1: the True/False judge of rwkv-skills, its prompt byte for byte.

In the original a quoting slip sends the two characters backslash and n where line breaks were meant; so does this, as
scores are to be comparable. Its reading is not kept: there only the exact words counted, and everything else, an
outage too, became a wrong answer. Here decoration does not matter, and what is neither True nor False is unreadable.
"""

from rwkv_data.definition.answer import Answer
from rwkv_data.definition.stage import Row
from rwkv_data.judges import reply_parser
from rwkv_data.judges.judge_rule import JudgeRule, JudgeVerdict, Messages
from rwkv_data.judges.prompt_parts import chat

_DENIED = ("not true", "not false", "n't true", "n't false", "neither true", "neither false")


def ask(row: Row, extracted: str, _: Answer) -> Messages:
    """Return one user message. The text is that of rwkv-skills, `\\n` included."""
    return chat(
        "You are a rigorous AI judge. Your task is to evaluate whether a student's answer is semantically completely "
        "equivalent to the reference answer, based on the provided question and reference answer."
        f"\\n\\nInput:\\nQuestion: {row['question']}\\nReference Answer: {row['answer']}"
        f"\\nStudent's Answer: {extracted}"
        "\\n\\nOutput Format:\\nStrictly adhere to the output format: Only output 'True' or 'False'."
    )


def verdict(reply: str) -> JudgeVerdict | None:
    """Read True or False, in any case and decoration; None for anything else."""
    word = reply_parser.only_word(reply, ("true", "false"))
    said = reply_parser.without_thought(reply)
    if word is None or any(denied in said.lower() for denied in _DENIED):
        return None
    return JudgeVerdict(float(word == "true"), reply_parser.bare(said)[:500])


RULE = JudgeRule.single("rwkv-skills-v1", "1", ask, verdict)
