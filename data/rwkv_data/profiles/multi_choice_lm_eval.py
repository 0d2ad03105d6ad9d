r"""Multiple choice as in lm-evaluation-harness 0.4: the log-likelihood of a blank and each choice after a prompt.

    mmlu         The following are multiple choice questions (with answers) about S.\n\nQ\nA. ..\nB. ..\nAnswer:
    cmmlu, ceval a sentence with the subject in Chinese\n\nQ\nA. ..\nB. ..\n答案：
    arc          Question: Q\nAnswer:                                   (the choices themselves are scored)
    hellaswag    the text so far                                        (likewise)
    gpqa         What is the correct answer to this question:Q\nChoices:\n(A) ..\n(B) ..\nAnswer:

(lm_eval/tasks/{mmlu/default,cmmlu,ceval,arc,hellaswag,gpqa/zeroshot}.) Where letters are scored, all choices are as
long as each other and acc_norm is acc, so one of them is reported. mmlu, cmmlu and ceval take the first examples of the
subject, the others draw theirs for each question.
"""

from collections.abc import Callable

from rwkv_data.definition import rows
from rwkv_data.definition.few_shot import FewShot
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.graders import choice
from rwkv_data.profiles import LM_EVAL
from rwkv_data.profiles.multi_choice import Prompt, choice_lines, spaced_letters, subject

Choices = Callable[[Row], tuple[str, ...]]


def mmlu() -> Kind:
    """Return the kind with letters; no examples by default (reports usually use 5)."""

    def before(row: Row) -> str:
        return f"The following are multiple choice questions (with answers) about {subject(row)}.\n\n"

    return _letters(before, "Answer:")


def chinese(description: Callable[[str], str]) -> Kind:
    """Return the kind with letters after a question in Chinese; `description` makes the first sentence from the row's
    subject."""
    return _letters(lambda row: f"{description(str(row['subject']))}\n\n", "答案：")


def continuations(prompt: Prompt, *, metrics: tuple[str, ...], one_more: bool = False) -> Kind:
    """Return the kind that scores the choices' texts, with and without the length norm. With `one_more` one example
    more is drawn, so that the row itself can be left out, as the harness does for tasks that have no test split."""
    example = _example(prompt, lambda row: row["choices"][rows.LETTERS.index(row["answer"])])
    return _kind(
        prompt,
        lambda row: tuple(f" {text}" for text in row["choices"]),
        grader=choice.NORM,
        metrics=metrics,
        shots=FewShot(count=0, example=example, pick="sampled", same_split=one_more),
    )


def arc_prompt(row: Row) -> str:
    """Return the question without its choices, which are scored as continuations."""
    return f"Question: {row['question']}\nAnswer:"


def hellaswag_prompt(row: Row) -> str:
    """Return the context, which preparation has put into the harness's form."""
    return str(row["question"])


def gpqa() -> Kind:
    """Return the kind with letters in brackets. The order of the choices is the prepared one; the harness draws its own
    for each run."""
    return _kind(gpqa_prompt, lambda row: tuple(f" ({letter})" for letter in rows.letters(row)), group_by="subject")


def gpqa_prompt(row: Row) -> str:
    """Return the prompt; as in the harness, there is no blank before the question."""
    choices = zip(rows.letters(row), row["choices"], strict=True)
    lines = "\n".join(f"({letter}) {text.replace('  ', ' ')}" for letter, text in choices)
    return f"What is the correct answer to this question:{row['question']}\nChoices:\n{lines}\nAnswer:"


def _letters(before: Prompt, last_line: str) -> Kind:
    def prompt(row: Row) -> str:
        return f"{row['question'].strip()}\n{choice_lines(row)}\n{last_line}"

    shots = FewShot(count=0, example=_example(prompt, lambda row: row["answer"]), before=before, by="subject")
    return _kind(prompt, spaced_letters, group_by="subject", shots=shots)


def _example(prompt: Prompt, answer: Prompt) -> Prompt:
    return lambda row: f"{prompt(row)} {answer(row)}"


def _kind(
    prompt: Prompt,
    choices: Choices,
    *,
    grader: Grader = choice.GRADER,
    metrics: tuple[str, ...] = ("accuracy",),
    group_by: str = "",
    shots: FewShot | None = None,
) -> Kind:
    profile, version = LM_EVAL
    return Kind(
        name="multi_choice_plain.lm-eval",
        profile=profile,
        profile_version=version,
        stages=(Stage(name="answer", mode="choose", prompt=prompt, choices=choices, split="lm-eval"),),
        grader=grader,
        metrics=metrics,
        group_by=group_by,
        shots=shots,
        default=False,
    )
