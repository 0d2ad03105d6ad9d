"""The errors of OpenAI routes, in the shape that clients expect: {"error": {message, type, param, code}}."""

from dataclasses import dataclass, field

import msgspec

from rwkv_engine.errors import ItemError, QueueFullError
from rwkv_engine.serving.compile_requests import PromptTooLongError
from rwkvctl.http.server import Response

RETRY_AFTER_S = 1
INVALID = "invalid_request_error"


@dataclass(slots=True, eq=False)
class Refusal(Exception):  # noqa: N818 - what is refused need not be an error of ours
    """An error answer to a request."""

    status: int
    message: str
    type: str = INVALID
    param: str | None = None
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """Return the error as JSON; streams send it as an event."""
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})

    def response(self) -> Response:
        return Response(self.status, self.body, headers=self.headers)


def bad(param: str | None, message: str, code: str | None = None) -> Refusal:
    """Return the refusal, status 400, for a parameter or body that cannot be used."""
    return Refusal(400, f"{param}: {message}" if param else message, param=param, code=code)


def of_item(error: ItemError, param: str) -> Refusal:
    """Return the refusal for a parameter that the compiler rejects; a message that names one itself is left as it
    is."""
    if isinstance(error, PromptTooLongError):
        return Refusal(400, str(error), param=param, code="context_length_exceeded")
    named, colon, _ = str(error).partition(":")
    return Refusal(400, str(error), param=named if colon and named.isidentifier() else param)


def of_queue(error: QueueFullError) -> Refusal:
    """Return the refusal for a full queue: status 429 with `retry-after`."""
    message = f"{error}; try again in {RETRY_AFTER_S} s"
    headers = {"retry-after": str(RETRY_AFTER_S)}
    return Refusal(429, message, "requests", code="rate_limit_exceeded", headers=headers)


def of_engine(error: str) -> Refusal:
    """Return the refusal, status 500, for a sample that ended in an error."""
    return Refusal(500, error or "the engine gave no answer", "server_error", code="server_error")


def unknown_model(asked: str, served: str) -> Refusal:
    return Refusal(404, f"the model {asked!r} is not served here; {served!r} is", param="model", code="model_not_found")


def wrong_key() -> Refusal:
    headers = {"www-authenticate": "Bearer"}
    message = "the request carries no valid key: send the header `Authorization: Bearer KEY`"
    return Refusal(401, message, code="invalid_api_key", headers=headers)


def wrong_method(method: str, path: str, allowed: str) -> Refusal:
    return Refusal(405, f"{path} takes {allowed}, not {method}", code="method_not_allowed", headers={"allow": allowed})


def no_route(sentence: str) -> Refusal:
    return Refusal(404, sentence, code="not_found")
