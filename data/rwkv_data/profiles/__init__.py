"""Prompt profiles: how rows become prompts. Each is named and versioned, because the prompt affects the score.

`rwkv-skills-v1` asks byte for byte as rwkv-skills does (no few-shot, no chat template; the open `<think` is deliberate:
the model writes the `>`). `demo-v1` is the short form that the built-in checkpoint was trained on.
`rwkv-skills-v1-whole` is v1 without its stop at the first blank line, which cuts code and long answers short.
`chat` is one turn of a conversation, whose reply holds thoughts and answer: for models that end both by themselves, and
the one form besides free translation and `simple-evals` in which a model behind a chat API can be asked.
Stops and unpenalised tokens are named by their bytes: in the World vocabulary 0, 261, 24281 are the end of text,
"\\n\\n" and "User"; 2402 and 4910 are "}\\" and " }\\"; 33, 10, 49..58 are " ", tab and the digits.
"""

from typing import Final

RWKV_SKILLS: Final = ("rwkv-skills-v1", 1)
RWKV_SKILLS_V2: Final = ("rwkv-skills-v2", 1)
LM_EVAL: Final = ("lm-eval", 1)
QWEN_MATH: Final = ("qwen-math", 1)
ALBATROSS: Final = ("albatross", 1)
ANSWER_JUDGE: Final = ("answer-judge-v1", 1)
DEMO: Final = ("demo-v1", 1)
BBH: Final = ("bbh", 1)
HELD_OUT: Final = ("held-out", 1)
SIMPLE_EVALS: Final = ("simple-evals", 1)
RWKV_SKILLS_WHOLE: Final = ("rwkv-skills-v1-whole", 1)
RWKV_SKILLS_THINKING: Final = ("rwkv-skills-v1-thinking", 1)
LIVECODEBENCH: Final = ("livecodebench", 1)
CONTEST: Final = ("rwkv-contest", 1)
CHAT: Final = ("chat", 1)
TRANSLATE: Final = ("rwkv-translate-v1", 1)
