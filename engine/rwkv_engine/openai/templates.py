"""The prompt formats that RWKV-7 checkpoints were trained on, as data, and how messages become a prompt.

After RWKV7-G1x-templates.txt of RWKV-LM: a blank line ends a turn, so in what users and systems say blank lines become
line breaks. Messages that end with the assistant's are continued where they end.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rwkv_engine.openai.refusals import bad
from rwkv_engine.openai.request_types import Message

Phase = Literal["verbatim", "answering", "thinking"]
_BLANK_LINES = re.compile(r"\n{2,}")
NAMES: Final = {"system": "System", "developer": "System", "user": "User", "assistant": "Assistant"}


@dataclass(frozen=True, slots=True)
class Template:
    """`opening` is put after `Assistant:` for a new answer and leaves `lead` to be written before it; `stops` end it;
    `turns`: whether turns are named at all.

    `phase` is what the model writes first: an answer, a thought, or text that is not to be looked at.
    """

    opening: str = ""
    lead: str = " "
    stops: tuple[str, ...] = ("\n\nUser", "\n\nSystem:", "\n\nAssistant:")
    turns: bool = True
    phase: Phase = "answering"


TEMPLATES: Final = {
    "base": Template(lead="", stops=(), turns=False, phase="verbatim"),
    "chat": Template(),
    "think": Template(opening=" <think", phase="thinking"),
    "fake-think": Template(opening=" <think>\n</think", lead=">\n"),
}
DEFAULT: Final = "chat"


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A prompt, the stops that belong to it, and what the model goes on with; `lead` comes before its answer."""

    text: str
    stops: tuple[str, ...]
    phase: Phase
    lead: str = ""


def template_named(name: str) -> Template:
    """Return the template of that name. Raises Refusal if there is none."""
    if name not in TEMPLATES:
        raise bad("chat_template", f"there is no template {name!r}; there are {', '.join(TEMPLATES)}")
    return TEMPLATES[name]


def render(messages: Sequence[Message], template: Template) -> RenderedPrompt:
    """Return the prompt of some messages. Raises Refusal for content that is not text."""
    *before, last = messages
    going_on = last.role == "assistant"
    turns = [turn(message, template) for message in (before if going_on else messages)]
    if going_on:
        told = text_of(last)
        turns.append(f"Assistant: {told}" if template.turns else told)
        return RenderedPrompt("\n\n".join(turns), template.stops, phase_after(told, template))
    if template.turns:
        turns.append(f"Assistant:{template.opening}")
    return RenderedPrompt("\n\n".join(turns), template.stops, template.phase, template.lead)


def turn(message: Message, template: Template) -> str:
    """Return a message as a complete turn of the prompt."""
    text = text_of(message)
    if not template.turns:
        return text
    return f"{NAMES[message.role]}: {text.strip() if message.role == 'assistant' else cleaned(text)}"


def cleaned(text: str) -> str:
    """Return what a user or system says, without blank lines."""
    return _BLANK_LINES.sub("\n", text.replace("\r\n", "\n")).strip()


def phase_after(told: str, template: Template) -> Phase:
    """Return the phase of an answer that the client has begun: inside a thought, or text that goes on as it is."""
    return "thinking" if template.phase == "thinking" and "<think" in told and "</think>" not in told else "verbatim"


def text_of(message: Message) -> str:
    """Return the text of a message. Raises Refusal for content parts other than text."""
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    other = next((part.type for part in message.content if part.type != "text"), None)
    if other is not None:
        raise bad("messages", f"a content part is of type {other!r}; only text is understood")
    return "".join(part.text for part in message.content)
