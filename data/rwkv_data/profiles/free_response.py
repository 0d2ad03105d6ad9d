"""Free answers as in rwkv-skills: a chain of thought, then the content of a box."""

from dataclasses import replace

from rwkv_data.definition.few_shot import FewShot
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.graders.judged import judged
from rwkv_data.graders.maths.boxed import closes_box
from rwkv_data.judges.judge_rule import JudgeRule
from rwkv_data.profiles import RWKV_SKILLS
from rwkv_data.profiles.sampling import COT_STOPS, FINAL_STOPS, FREE_RESPONSE_COT, FREE_RESPONSE_FINAL
from rwkvctl.protocol.engine import Sampling


def cot_prompt(row: Row) -> str:
    """Return the question, and the beginning of a chain of thought."""
    return f"User: {row['question']}\n\nAssistant: <think"


def boxed_tail(row: Row) -> str:
    """Return the text after the chain of thought, the same for every row: the model completes the box."""
    return "\nTherefore, the answer is \\(\\boxed{"


def worked(row: Row) -> str:
    """Return a row with its solution as a few-shot example. rwkv-skills shows none: `--set shots=N` does."""
    return f"{cot_prompt(row)}>{row.get('solution', '')}</think>{boxed_tail(row)}{row['answer']}}}\\)"


WORKED = FewShot(count=0, example=worked)


def final_stage(tail: str = "") -> Stage:
    """Return the stage of the greedy content of a box. `tail` precedes the sentence that opens it."""
    return Stage(
        name="final",
        mode="generate",
        prompt=lambda row: tail + boxed_tail(row),
        sampling=FREE_RESPONSE_FINAL,
        stops=FINAL_STOPS,
        whole=closes_box,
    )


def free_response(
    grader: Grader,
    *,
    metrics: tuple[str, ...] = ("pass@1",),
    repeats: int = 1,
    cot: Sampling = FREE_RESPONSE_COT,
    group_by: str = "",
    shots: FewShot | None = None,
) -> Kind:
    """Return the kind of two stages: a sampled chain of thought, then the greedy content of a box."""
    profile, version = RWKV_SKILLS
    return Kind(
        name="free_response",
        profile=profile,
        profile_version=version,
        stages=(
            Stage(name="cot", mode="generate", prompt=cot_prompt, sampling=cot, stops=COT_STOPS),
            final_stage(),
        ),
        grader=grader,
        repeats=repeats,
        metrics=metrics,
        group_by=group_by,
        shots=shots,
    )


def free_response_judge(kind: Kind, rule: JudgeRule, *, default: bool) -> Kind:
    """Return the same kind, in which a judge decides on answers that the rule-based grader does not accept."""
    return replace(kind, name="free_response_judge", grader=judged(kind.grader, rule), default=default)
