"""Maths as lm-evaluation-harness 0.4.13 asks it: gsm8k, gsm8k_cot, minerva_math, hendrycks_math, aime.

Prompts, examples, stops and limits are the harness's, byte for byte; its limit of 256 tokens holds where a task names
none, and cuts many chains of thought short (`--set max_tokens=1024`). All of it is greedy. Wherever a whole-text answer
is graded by the harness's own rules, so is it here, quirks included: see docs/graders.md.
"""

from collections.abc import Callable

from rwkv_data.definition.few_shot import FewShot
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.graders.maths import lm_eval_gsm8k, lm_eval_math
from rwkv_data.profiles import LM_EVAL
from rwkv_data.profiles.maths_examples import GSM8K, MINERVA
from rwkvctl.protocol.engine import Sampling, Stops

NAME = "free_response.lm-eval"
NAME_COT = "free_response.lm-eval-cot"
NAME_HENDRYCKS = "free_response.lm-eval-hendrycks"
_ENDS = ("</s>", "<|im_end|>")
_UNSAID = 256
"""max_gen_toks of the harness's models where a task does not set it."""


def question_answer(row: Row) -> str:
    """Return the prompt of gsm8k and aime."""
    return f"Question: {row['question']}\nAnswer:"


def q_a(row: Row) -> str:
    """Return the prompt of gsm8k_cot."""
    return f"Q: {row['question']}\nA:"


def problem_solution(row: Row) -> str:
    """Return the prompt of minerva_math."""
    return f"Problem:\n{row['question']}\n\nSolution:"


def problem_answer(row: Row) -> str:
    """Return the prompt of hendrycks_math."""
    return f"Problem: {row['question']}\nAnswer:"


def gsm8k() -> Kind:
    """Return gsm8k: five examples of the train split with whole solutions, drawn for each question from one stream."""
    shots = FewShot(count=5, example=lambda row: f"{question_answer(row)} {row['target']}", pick="sampled")
    stops = ("Question:", *_ENDS)
    return _kind(NAME, question_answer, lm_eval_gsm8k.GSM8K, stops, shots=shots, metrics=("accuracy", "flexible"))


def gsm8k_cot() -> Kind:
    """Return gsm8k_cot, with the eight fixed examples of Wei et al."""
    shots = _fixed(q_a, GSM8K)
    return _kind(NAME_COT, q_a, lm_eval_gsm8k.COT, ("Q:", *_ENDS), shots=shots, metrics=("accuracy", "flexible"))


def minerva() -> Kind:
    """Return minerva_math with its four fixed examples. The headline requires its closing sentence word for word;
    math_verify does not."""
    shots = _fixed(problem_solution, MINERVA)
    metrics = ("accuracy", "math_verify")
    return _kind(NAME, problem_solution, lm_eval_math.MINERVA, ("Problem:",), shots=shots, metrics=metrics)


def hendrycks(name: str = NAME, *, pool: bool = True) -> Kind:
    """Return hendrycks_math. It has no examples by default; drawn ones (`--set shots=4`) show bare answers."""
    shots = FewShot(count=0, example=lambda row: f"{problem_answer(row)} {row['answer']}", pick="sampled")
    return _kind(name, problem_answer, lm_eval_math.HENDRYCKS, ("Problem:",), shots=shots if pool else None)


def aime() -> Kind:
    """Return aime: no examples, at most 32,768 tokens."""
    stops = ("Question:", *_ENDS, "<|eot_id|>")
    return _kind(NAME, question_answer, lm_eval_math.AIME, stops, max_tokens=32768)


def _fixed(prompt: Callable[[Row], str], examples: tuple[tuple[str, str], ...]) -> FewShot:
    texts = tuple(f"{prompt({'question': question})} {answer}" for question, answer in examples)
    return FewShot(count=len(texts), example=prompt, fixed=texts)


def _kind(
    name: str,
    prompt: Callable[[Row], str],
    grader: Grader,
    stops: tuple[str, ...],
    *,
    shots: FewShot | None = None,
    metrics: tuple[str, ...] = ("accuracy",),
    max_tokens: int = _UNSAID,
) -> Kind:
    profile, version = LM_EVAL
    stage = Stage(
        name="answer",
        mode="generate",
        prompt=prompt,
        sampling=Sampling(max_tokens=max_tokens),
        stops=Stops(suffixes=stops),
    )
    return Kind(
        name=name,
        profile=profile,
        profile_version=version,
        stages=(stage,),
        grader=grader,
        metrics=metrics,
        shots=shots,
        default=False,
    )
