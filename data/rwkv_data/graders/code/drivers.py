"""The drivers that test an answer, in the driver's process of the sandbox (see rwkv_data.sandbox.driver).

It is imported by the zygote: standard library and the sandbox only. Each function gets the candidate and its data, and
returns a report: `tests`, `passed`, and if one failed `failed` (wrong, raised, timeout, memory, killed, lost) and
`detail`. The first failure ends the run, as in every benchmark's own grader.
"""

import builtins
import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from rwkv_data.graders.code.compare_outputs import EvalplusRule, same_value, same_value_or_first
from rwkv_data.sandbox.codec import Reference, decode, encode
from rwkv_data.sandbox.driver import CallFailedError, Candidate, decode_reply

DriverReport = dict[str, Any]
_LONGEST = 300
_LONG_TEXT = 100_000
_TESTS = "<tests>"
_EXCEPTIONS = {
    name: kind for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
}
# Tests name modules that the reference solution imports; they are the same here as there.
_MODULES = {"cmath", "collections", "copy", "datetime", "itertools", "math", "random", "re", "string", "sys"}


def assertions(candidate: Candidate, data: Mapping[str, Any]) -> DriverReport:
    """Run tests that are code: `before` is executed here first, then each of `tests`.

    Names that neither defines, and those of `functions`, are the candidate's: calling one calls it, and giving one as
    an argument names it there. What a candidate defines beside them changes nothing here.
    """
    names: dict[str, Any] = {"__name__": "tests", "__builtins__": _Builtins(candidate)}
    exec(compile(_complete(data["before"]), "<before>", "exec"), names)  # noqa: S102  # this is the sandbox
    names |= {name: _Remote(candidate, name) for name in data["functions"]}
    for number, test in enumerate(data["tests"]):
        try:
            exec(compile(test, _TESTS, "exec"), names)  # noqa: S102  # this is the sandbox
        except CallFailedError as failed:
            return _failed(data["tests"], number, failed.kind, f"{_place(test, failed)}: {failed}")
        except Exception as error:  # noqa: BLE001  # whatever a test raises, it has failed
            kind = "wrong" if isinstance(error, AssertionError) else "raised"
            return _failed(data["tests"], number, kind, f"{_place(test, error)}: {_said(error)}")
        if candidate.failure:  # a test that swallows everything has not seen it
            return _failed(data["tests"], number, candidate.failure.kind, str(candidate.failure))
    return {"tests": len(data["tests"]), "passed": len(data["tests"])}


def _complete(code: str) -> str:
    """Return the code with a body for its last function: a prompt may end after a signature or a docstring."""
    for ending in ("", "\n    pass\n"):
        try:
            compile(code + ending, "<before>", "exec")
        except SyntaxError:
            continue
        return code + ending
    return ""


class _Builtins(dict[str, Any]):
    """The builtins, then the candidate's names: where a test's code looks up names that it does not define."""

    def __init__(self, candidate: Candidate) -> None:
        super().__init__(vars(builtins))
        self._candidate = candidate

    def __missing__(self, name: str) -> Any:
        return importlib.import_module(name) if name in _MODULES else _Remote(self._candidate, name)


class _Remote(Reference):
    """A function of the candidate's process: calling it here runs it there."""

    __slots__ = ("_candidate",)

    def __init__(self, candidate: Candidate, name: str) -> None:
        super().__init__(name)
        self._candidate = candidate

    def __call__(self, *arguments: object, **keywords: object) -> Any:
        try:
            return self._candidate.call(self.name, arguments, keywords)
        except CallFailedError as failed:
            if failed.kind == "raised" and failed.name in _EXCEPTIONS:
                raise _raised(failed) from None
            raise


def _raised(failed: CallFailedError) -> Exception:
    try:
        return _EXCEPTIONS[failed.name](failed.text)
    except TypeError:  # UnicodeDecodeError and others need more than a text
        return RuntimeError(f"{failed.name}: {failed.text}")


def _place(test: str, error: BaseException) -> str:
    """Return the line of the test that failed."""
    import traceback  # not in every fork

    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == _TESTS]
    source = test.split("\n")
    return source[lines[-1] - 1].strip() if lines and lines[-1] and lines[-1] <= len(source) else "the test"


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _failed(tests: Any, number: int, kind: str, detail: str) -> DriverReport:
    shortened = detail if len(detail) <= _LONGEST else f"{detail[: _LONGEST - 1]}…"
    return {"tests": len(tests), "passed": number, "failed": kind, "detail": f"test {number + 1}: {shortened}"}


def record(candidate: Candidate, data: Mapping[str, Any]) -> DriverReport:
    """Return the outputs of a reference solution (text of the codec) and the processor time that it reports for
    each."""
    values, seconds = [], []
    for value in candidate.calls(f"#{data['entry_point']}", data["calls"]):
        values.append(_digest(value) if _long_text(value) else value.decode())
        seconds.append(candidate.seconds)
    return {"values": values, "seconds": seconds}


def _long_text(value: bytes) -> bool:
    """Whether a value is a string that is too long to be kept: HumanEval/15 returns 150 MB of strings."""
    return len(value) > _LONG_TEXT and value.startswith(b'"')


def _digest(value: bytes) -> str:
    import hashlib  # not in every fork

    return f"#{hashlib.sha256(value).hexdigest()}"


def evalplus(candidate: Candidate, data: Mapping[str, Any]) -> DriverReport:
    """Test HumanEval+ and MBPP+: every input within a limit of its own, compared with the reference's output."""
    rule = EvalplusRule(data["entry_point"], data["atol"], mbpp=data["mbpp"])

    def accepts(text: bytes, number: int) -> bool:
        expected: str = data["expected"][number]
        if expected.startswith("#"):
            return _digest(text) == expected
        arguments, _ = decode(data["calls"][number])
        return rule.accepts(decode_reply(text), decode(expected), arguments)

    return _compare(candidate, f"#{data['entry_point']}", data, accepts)


def contest(candidate: Candidate, data: Mapping[str, Any]) -> DriverReport:
    """Test LiveCodeBench, APPS and TACO: compare a function's outputs with the listed ones."""
    same = same_value if data["rule"] == "livecodebench" else same_value_or_first
    return _compare(
        candidate, data["entry_point"], data, lambda text, number: same(decode_reply(text), data["expected"][number])
    )


def _compare(
    candidate: Candidate, name: str, data: Mapping[str, Any], accepts: Callable[[bytes, int], bool]
) -> DriverReport:
    calls, passed = data["calls"], 0
    try:
        for number, text in enumerate(candidate.calls(name, calls, data["limits_s"])):
            if not _accepted(accepts, text, number):
                given = ", ".join(shown(argument) for argument in decode(calls[number])[0])
                what = f"{data['entry_point']}({given}) gives {shown(decode_reply(text))}"
                return _failed(calls, number, "wrong", what)
            passed += 1
    except CallFailedError as failed:
        return _failed(calls, passed, failed.kind, str(failed))
    return {"tests": len(calls), "passed": len(calls)}


def _accepted(accepts: Callable[[bytes, int], bool], text: bytes, number: int) -> bool:
    try:
        return accepts(text, number)
    except RecursionError:  # deeper than the reference's output can be
        return False


def shown(value: Any) -> str:
    """Return a value as text for the detail of a grade, cut to a length."""
    try:
        limit = sys.get_int_max_str_digits()
        text = repr(value) if not isinstance(value, int) or value.bit_length() < limit else "a huge number"
    except (ValueError, RecursionError, MemoryError):
        text = "a value too large to show"
    return text if len(text) <= 80 else f"{text[:79]}…"


def call_text(*arguments: object) -> str:
    """Return a call's arguments as the candidate reads them."""
    return encode((arguments, {}))
