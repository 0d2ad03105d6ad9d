r"""rwkv-skills-v2: the prompts of rwkv-skills' later branch (agent-bench) for maths.

    User: You are a very talented expert in maths.
    Solve the problem and output the final answer in \boxed{}.
    Problem: Q

    Assistant: <think>COT</think>
    Therefore, the answer is \(\boxed{

The chain of thought is what the model writes after `<think>`. With fake thinking, which the branch has for multiple
choice alone, the block is `<think>\n</think>\n` and the model goes straight to the answer. Sampling
and stops are those of the first version; here the chain of thought also ends where the model closes it, which that
branch does not notice: it goes on with a second `</think>`.
"""

from dataclasses import replace

from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.profiles import RWKV_SKILLS_V2
from rwkv_data.profiles.free_response import boxed_tail, final_stage
from rwkv_data.profiles.sampling import COT_STOPS
from rwkvctl.protocol.engine import Stops

NAME = "free_response.rwkv-skills-v2"
NAME_FAKE = "free_response.rwkv-skills-v2-fake-cot"
_STOPS = Stops(tokens=COT_STOPS.tokens, suffixes=("</think>",))


def user_part(row: Row) -> str:
    """Return the user's turn: the row's subject, or maths, then the problem."""
    subject = (str(row.get("subject") or "").strip() or "maths").replace("_", " ")
    return (
        f"User: You are a very talented expert in {subject}.\n"
        f"Solve the problem and output the final answer in \\boxed{{}}.\nProblem: {row['question']}\n\nAssistant: "
    )


def thinking_prompt(row: Row) -> str:
    """Return the prompt with an opened block for the chain of thought."""
    return user_part(row) + "<think>"


def unthinking_prompt(row: Row) -> str:
    """Return the prompt with an empty block, and the box opened."""
    return user_part(row) + "<think>\n</think>" + boxed_tail(row)


def thinking(kind: Kind) -> Kind:
    """Return the kind with the second version's prompts."""
    profile, version = RWKV_SKILLS_V2
    cot = replace(kind.stages[0], prompt=thinking_prompt, stops=_STOPS)
    return replace(
        kind,
        name=NAME,
        profile=profile,
        profile_version=version,
        stages=(cot, final_stage("</think>")),
        shots=None,
        default=False,
    )


def unthinking(kind: Kind) -> Kind:
    """Return the kind of one stage: the content of the box, which is greedy, so that one sample is enough."""
    final: Stage = replace(final_stage(), prompt=unthinking_prompt)
    return replace(thinking(kind), name=NAME_FAKE, stages=(final,), repeats=1, metrics=("pass@1",))
