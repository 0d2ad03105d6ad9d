"""The context of the OpenAI routes: the model's names, the launcher, the tokens, and the fields of every answer."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rwkv_engine.openai.refusals import unknown_model
from rwkv_engine.openai.request_body import BodyReader
from rwkv_engine.openai.request_launcher import Launcher
from rwkv_engine.openai.templates import TEMPLATES
from rwkv_engine.openai.tokens import Tokens


@dataclass(frozen=True, slots=True)
class ApiContext:
    """The context of the OpenAI routes. `name` is the model's name as it is served."""

    name: str
    launcher: Launcher
    tokens: Tokens
    fingerprint: str
    version: str
    reader: BodyReader = field(default_factory=BodyReader)
    since: int = field(default_factory=lambda: int(time.time()))

    def template_asked(self, model: str) -> str:
        """Return the template named by a model's suffix (`NAME:think`), empty if none is. Raises Refusal for another
        model."""
        if model in self.names:
            return ""
        base, _, template = model.rpartition(":")
        if base in self.names and template in TEMPLATES:
            return template
        raise unknown_model(model, self.name)

    @property
    def names(self) -> set[str]:
        """The names under which requests may ask for the model: full, without its folder or file ending, or empty."""
        base = self.name.rpartition("/")[2]
        return {"", self.name, base, base.removesuffix(".pth").removesuffix(".safetensors")}

    def header(self, kind: str, prefix: str) -> "ReplyHeader":
        """Return the fields that all parts of one answer share, with a new id."""
        return ReplyHeader(f"{prefix}-{secrets.token_hex(12)}", kind, int(time.time()), self.name, self.fingerprint)


@dataclass(frozen=True, slots=True)
class ReplyHeader:
    """The fields that all parts of one answer share."""

    id: str
    kind: str
    created: int
    model: str
    fingerprint: str

    def reply(self, kind: str = "", **fields: Any) -> Mapping[str, Any]:
        """Return an answer, or one event of it: the shared fields and the given ones."""
        return {
            "id": self.id,
            "object": kind or self.kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            **fields,
        }
