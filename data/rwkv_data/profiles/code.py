r"""Code: how HumanEval, MBPP, LiveCodeBench and their like are asked.

rwkv-skills-v1, byte for byte. CODE is the prompt without its blank lines; there is no blank behind the first "User:":

    HumanEval      User:You are a top-level code master. ...:\nCODE\n\nAssistant:CODE
    fix, MBPP      User: You are a top-level code master. ...:\nCODE\n\nAssistant: <think></think>\n```python
    LiveCodeBench  User: You are an expert Python programmer. ...### Answer: ...\n\nAssistant: <think
                   and after the thought \nTherefore, the correct code is ```python\n

Its short prompts stop at the token "\n\n", so that every answer ends at its first blank line. That is a fault, so the
kinds that run by default are `rwkv-skills-v1-whole`: prompt and sampling of v1, and other stops. A function that the
prompt began ends where something else begins at the left margin (the stops of Chen et al. 2021, arXiv 2107.03374); code
in a fence ends with the fence. Both end where the next turn would begin.

rwkv-skills-v2 asks HumanEval like MBPP, naming the signature, and LiveCodeBench with a closed thought before the fence.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from rwkv_data.definition.few_shot import FewShot
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.graders.code.extract import (
    ExtractionRule,
    before_fence,
    between_last_fences,
    continuation,
    last_fenced_answer,
)
from rwkv_data.profiles import (
    CONTEST,
    LIVECODEBENCH,
    LM_EVAL,
    RWKV_SKILLS,
    RWKV_SKILLS_V2,
    RWKV_SKILLS_WHOLE,
    chat_turn,
)
from rwkv_data.profiles.sampling import UNPENALISED
from rwkvctl.protocol.engine import Sampling, Stops

Graders = Callable[[ExtractionRule], Grader]
"""A function that makes a grader from the rule that extracts the code."""
Prompt = Callable[[Row], str]

TASK: Final = (
    "You are a top-level code master. Complete the following code without any additional text or explanation:\n"
)
CODE: Final = Sampling(
    max_tokens=1024,
    temperature=0.6,
    top_k=50,
    top_p=0.6,
    presence=0.25,
    frequency=0.25,
    decay=0.996,
    unpenalised=UNPENALISED,
)
LONG_CODE: Final = Sampling(
    max_tokens=8192,
    temperature=0.6,
    top_k=50,
    top_p=0.6,
    presence=0.25,
    frequency=0.25,
    decay=0.996,
    unpenalised=UNPENALISED,
)
FENCES: Final = ("```", " ```")
V1_STOPS: Final = Stops(tokens=("\n\n", *FENCES, "User"))
NEXT_BLOCK: Final = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")
NEXT_TURN: Final = "\nUser:"
_FENCED_STOPS: Final = Stops(suffixes=("```", NEXT_TURN))
_CONTINUED_STOPS: Final = Stops(suffixes=(*NEXT_BLOCK, "```", NEXT_TURN))


def without_blank_lines(text: str) -> str:
    """Return a text without its blank lines and outer white space."""
    return "\n".join(line for line in text.splitlines() if line.strip()).strip()


def continued(row: Row) -> str:
    """Return the prompt that ends with the beginning of a function, which the answer continues."""
    code = without_blank_lines(row["prompt"])
    return f"User:{TASK}{code}\n\nAssistant:{code}"


def fenced(text: str) -> str:
    """Return the prompt of a task, with an opened fence for the answer."""
    return f"User: {TASK}{without_blank_lines(text)}\n\nAssistant: <think></think>\n```python"


def fix(row: Row) -> str:
    """Return the prompt of a function with an error, to be rewritten."""
    return fenced(
        f"{row['prompt'].rstrip()}\n# Buggy implementation:\n{row['buggy_solution'].rstrip()}\n"
        f"# Fix the function `{row['entry_point']}` so it passes all tests."
    )


def with_signature(text: str, code: str) -> str:
    """Return a task with the first line of `code` that begins a function, where there is one."""
    lines = (line.strip() for line in code.splitlines())
    signature = next((line for line in lines if line.startswith("def ") and line.endswith(":")), "")
    return fenced(
        f"{text}\nFunction signature: {signature}\nWrite the full function definition." if signature else text
    )


def begun(row: Row) -> str:
    """Return the prompt of HumanEval in the second version, with the signature of the row's prompt."""
    return with_signature(row["prompt"], row["prompt"])


def task(row: Row) -> str:
    """Return the task of MBPP, with tabs as indents as rwkv-skills stores it, and the signature of the reference
    solution."""
    return with_signature(row["prompt"].replace("    ", "\t"), row["answer"])


def worked_task(row: Row) -> str:
    """Return the task of MBPP with its solution. rwkv-skills shows none: `--set shots=N` does."""
    return f"{task(row)}\n{row['code']}\n```"


def human_eval(grader: Graders, *, metrics: tuple[str, ...] = ("pass@1",)) -> list[Kind]:
    """Return the kinds of HumanEval and similar sets."""
    continues = grader(continuation)
    whole = _kind("code_human_eval", RWKV_SKILLS_WHOLE, continued, _CONTINUED_STOPS, continues, metrics)
    v2 = _kind("code_human_eval.rwkv-skills-v2", RWKV_SKILLS_V2, begun, _FENCED_STOPS, grader(before_fence), metrics)
    return [whole, _v1(whole), v2]


def human_eval_fix(grader: Graders) -> list[Kind]:
    """Return the kinds of HumanEvalFix. The second version asks as the first does."""
    whole = _kind("code_human_eval", RWKV_SKILLS_WHOLE, fix, _FENCED_STOPS, grader(before_fence), ("pass@1",))
    return [whole, _v1(whole)]


def mbpp(grader: Graders, *, metrics: tuple[str, ...] = ("pass@1",), shots: bool = False) -> list[Kind]:
    """Return the kinds of MBPP and similar sets. The second version asks as the first does."""
    whole = _kind("code_mbpp", RWKV_SKILLS_WHOLE, task, _FENCED_STOPS, grader(before_fence), metrics)
    if shots:
        whole = replace(whole, shots=FewShot(count=0, example=worked_task))
    return [whole, _v1(whole)]


def human_eval_lm_eval(grader: Grader) -> Kind:
    """Return HumanEval as lm-evaluation-harness asks it: the row's prompt unchanged, greedy, at most 1,024 tokens."""
    sampling, stops = Sampling(max_tokens=1024), Stops(suffixes=NEXT_BLOCK)
    return _kind(
        "code_human_eval.lm-eval", LM_EVAL, lambda row: str(row["prompt"]), stops, grader, ("pass@1",), sampling
    )


def mbpp_lm_eval_prompt(row: Row) -> str:
    """Return the prompt of a task with its first three tests."""
    tests = "".join(f"{test}\n" for test in row["test_list"][:3])
    return (
        f"You are an expert Python programmer, and here is your task: {row['prompt']} "
        f"Your code should pass these tests:\n\n{tests}[BEGIN]\n"
    )


def mbpp_lm_eval(grader: Grader) -> Kind:
    """Return MBPP as lm-evaluation-harness asks it: three examples (tasks 2 to 4), greedy, 256 tokens, its limit where
    a task names none."""
    sampling, stops = Sampling(max_tokens=256), Stops(suffixes=("[DONE]",))
    kind = _kind("code_mbpp.lm-eval", LM_EVAL, mbpp_lm_eval_prompt, stops, grader, ("pass@1",), sampling)
    return replace(kind, shots=FewShot(count=3, example=lambda row: f"{mbpp_lm_eval_prompt(row)}{row['code']}\n[DONE]"))


SYSTEM: Final = (
    "You are an expert Python programmer. You will be given a question (problem specification) and will generate a "
    "correct Python program that matches the specification and passes all tests."
)
_WITH_STARTER: Final = (
    "You will use the following starter code to write the solution to the problem and enclose your code within "
    "delimiters."
)
_WITHOUT_STARTER: Final = (
    "Read the inputs from stdin solve the problem and write the answer to stdout (do not directly test on the sample "
    "inputs). Enclose your code within delimiters as follows. Ensure that when the python program runs, it reads the "
    "inputs, runs the algorithm and writes output to STDOUT."
)


def problem(row: Row) -> str:
    """Return the statement, and the form that the answer is to have (LiveCodeBench, code_generation.py)."""
    starter = row["starter_code"]
    if not starter.strip() and row["function"]:  # some problems of APPS and TACO want a function and do not begin it
        starter = f"# The function is called {row['function']}."
    form, body = (_WITH_STARTER, starter) if starter.strip() else (_WITHOUT_STARTER, "# YOUR CODE HERE")
    return (
        f"### Question:\n{row['question'].strip()}\n\n### Format: {form}\n```python\n{body}\n```\n\n"
        "### Answer: (use the provided format with backticks)\n\n"
    )


def thinking(row: Row) -> str:
    """Return the prompt of a problem with the beginning of a chain of thought."""
    return f"User: {SYSTEM}\n{problem(row)}Assistant: <think"


def answering(row: Row) -> str:
    """Return the prompt of a problem that is to be answered at once."""
    return f"User: {SYSTEM}\n{problem(row)}Assistant:"


def question(row: Row) -> str:
    """Return the problem as the user's turn of a conversation."""
    return f"{SYSTEM}\n{problem(row)}".rstrip()


def livecodebench(grader: Graders) -> list[Kind]:
    """Return rwkv-skills' two versions, and LiveCodeBench's own: ten samples, code between the last fences."""
    kind = _contest("code_livecodebench", RWKV_SKILLS, grader(before_fence))
    return [kind, _closed_thought(kind), _official(grader(between_last_fences))]


def contest(grader: Graders) -> list[Kind]:
    """Return the kinds of other contests, which rwkv-skills lacks, in the wording of its LiveCodeBench."""
    asked = _contest("code_contest", CONTEST, grader(before_fence))
    return [asked, chat_turn.chat("code_contest", question, grader(last_fenced_answer), group_by=asked.group_by)]


def _contest(name: str, profile: tuple[str, int], grader: Grader) -> Kind:
    """A chain of thought, then the code, which ends with its fence and with nothing else, the end of text included."""
    cot = Stage(name="cot", mode="generate", prompt=thinking, sampling=LONG_CODE, stops=Stops())
    kind = _kind(
        name,
        profile,
        lambda _row: "\nTherefore, the correct code is ```python\n",
        Stops(end_of_text=False, tokens=FENCES),
        grader,
        ("pass@1",),
        LONG_CODE,
    )
    return replace(kind, stages=(cot, replace(kind.stages[0], name="final")), group_by="difficulty")


def _closed_thought(kind: Kind) -> Kind:
    """Return the kind whose chain of thought also ends where the model closes it, which rwkv-skills does not notice."""
    profile, version = RWKV_SKILLS_V2
    cot, final = kind.stages
    return replace(
        kind,
        name=f"{kind.name}.{profile}",
        profile=profile,
        profile_version=version,
        stages=(
            replace(cot, stops=Stops(suffixes=("</think>",))),
            replace(final, prompt=lambda _row: "\n</think>\n```python\n"),
        ),
        default=False,
    )


def _official(grader: Grader) -> Kind:
    sampling = Sampling(max_tokens=2000, temperature=0.2, top_p=0.95)
    stops, metrics = Stops(suffixes=(NEXT_TURN,)), ("pass@1", "pass@5")
    name = f"code_livecodebench.{LIVECODEBENCH[0]}"
    kind = _kind(name, LIVECODEBENCH, answering, stops, grader, metrics, sampling)
    return replace(kind, repeats=10, group_by="difficulty")


def _v1(whole: Kind) -> Kind:
    """Return the same kind with the stops of rwkv-skills."""
    profile, version = RWKV_SKILLS
    stages = (replace(whole.stages[0], stops=V1_STOPS),)
    return replace(
        whole, name=f"{whole.name}.{profile}", profile=profile, profile_version=version, stages=stages, default=False
    )


def _kind(
    name: str,
    profile: tuple[str, int],
    prompt: Prompt,
    stops: Stops,
    grader: Grader,
    metrics: tuple[str, ...],
    sampling: Sampling = CODE,
) -> Kind:
    return Kind(
        name=name,
        profile=profile[0],
        profile_version=profile[1],
        stages=(Stage(name="code", mode="generate", prompt=prompt, sampling=sampling, stops=stops),),
        grader=grader,
        metrics=metrics,
        default="." not in name,
    )
