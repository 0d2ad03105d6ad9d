"""What every OpenAI route works with."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rwkv_engine.openai.launch import Launcher
from rwkv_engine.openai.reading import Reader
from rwkv_engine.openai.refusals import unknown_model
from rwkv_engine.openai.templates import TEMPLATES
from rwkv_engine.openai.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Desk:
    """`name` is the model's name as it is served."""

    name: str
    launcher: Launcher
    tokens: Tokens
    fingerprint: str
    version: str
    reader: Reader = field(default_factory=Reader)
    since: int = field(default_factory=lambda: int(time.time()))

    def template_asked(self, model: str) -> str:
        """The template named by a model's suffix (`NAME:think`), empty if none is. Raises Refusal for another model."""
        if model in self.names:
            return ""
        base, _, template = model.rpartition(":")
        if base in self.names and template in TEMPLATES:
            return template
        raise unknown_model(model, self.name)

    @property
    def names(self) -> set[str]:
        """What the model is known as."""
        base = self.name.rpartition("/")[2]
        return {"", self.name, base, base.removesuffix(".pth").removesuffix(".safetensors")}

    def head(self, kind: str, prefix: str) -> "Head":
        """The beginning of an answer."""
        return Head(f"{prefix}-{secrets.token_hex(12)}", kind, int(time.time()), self.name, self.fingerprint)


@dataclass(frozen=True, slots=True)
class Head:
    """What all parts of one answer have in common."""

    id: str
    kind: str
    created: int
    model: str
    fingerprint: str

    def reply(self, kind: str = "", **fields: Any) -> Mapping[str, Any]:
        """An answer, or one event of it."""
        return {
            "id": self.id,
            "object": kind or self.kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            **fields,
        }
