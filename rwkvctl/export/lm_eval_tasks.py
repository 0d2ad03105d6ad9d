"""What lm_eval 0.4.13 calls the tasks whose prompts and grading our kinds of the profile lm-eval repeat, and the keys
of their metrics (`metric,filter`). A test looks them up in lm_eval itself."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Task(NamedTuple):
    """A task of lm_eval, and its key for each of our metrics."""

    name: str
    keys: Mapping[str, str]


ACC: Final = {"accuracy": "acc,none"}
NORMED: Final = {**ACC, "acc_norm": "acc_norm,none"}
EXACT: Final = {"accuracy": "exact_match,none"}
FILTERED: Final = {"accuracy": "exact_match,strict-match", "flexible": "exact_match,flexible-extract"}
VERIFIED: Final = {**EXACT, "math_verify": "math_verify,none"}
FOLLOWED: Final = {
    "accuracy": "prompt_level_strict_acc,none", "prompt_loose": "prompt_level_loose_acc,none",
    "inst_strict": "inst_level_strict_acc,none", "inst_loose": "inst_level_loose_acc,none",
}  # fmt: skip
CHOICE: Final = "multi_choice_plain.lm-eval"
FREE: Final = "free_response.lm-eval"

TASKS: Final[Mapping[tuple[str, str], Task]] = {
    ("aime24", FREE): Task("aime24", EXACT),
    ("aime25", FREE): Task("aime25", EXACT),
    ("arc_challenge", CHOICE): Task("arc_challenge", NORMED),
    ("arc_easy", CHOICE): Task("arc_easy", NORMED),
    ("bbh", FREE): Task("bbh_cot_fewshot", {"accuracy": "exact_match,get-answer"}),
    ("ceval", CHOICE): Task("ceval-valid", ACC),
    ("cmmlu", CHOICE): Task("cmmlu", ACC),
    ("gpqa_diamond", CHOICE): Task("gpqa_diamond_zeroshot", ACC),
    ("gpqa_extended", CHOICE): Task("gpqa_extended_zeroshot", ACC),
    ("gpqa_main", CHOICE): Task("gpqa_main_zeroshot", ACC),
    ("gsm8k", FREE): Task("gsm8k", FILTERED),
    ("gsm8k", "free_response.lm-eval-cot"): Task("gsm8k_cot", FILTERED),
    ("hellaswag", CHOICE): Task("hellaswag", NORMED),
    ("hendrycks_math", FREE): Task("hendrycks_math", EXACT),
    ("human_eval", "code_human_eval.lm-eval"): Task("humaneval", {"pass@1": "pass@1,create_test"}),
    ("ifeval", "instruction_following.lm-eval"): Task("ifeval", FOLLOWED),
    ("lambada", "lambada"): Task("lambada_openai", {**ACC, "word_perplexity": "perplexity,none"}),
    ("math_500", FREE): Task("minerva_math500", VERIFIED),
    ("math_500", "free_response.lm-eval-hendrycks"): Task("hendrycks_math500", EXACT),
    ("math_minerva", FREE): Task("minerva_math", VERIFIED),
    ("mbpp", "code_mbpp.lm-eval"): Task("mbpp", {"pass@1": "pass_at_1,none"}),
    ("mmlu", CHOICE): Task("mmlu", ACC),
}
