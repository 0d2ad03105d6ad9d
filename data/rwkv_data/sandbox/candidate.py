"""The process that runs the untrusted code: as a script, or as functions that another process calls.

It never holds what is expected of it: expected outputs, tests and verdicts live in other processes. All it can forge
is what it returns or prints, and that is the answer being graded.
"""

import atexit
import builtins
import functools
import gc
import io
import os
import sys
import threading
import time
import types
from typing import Any, NoReturn

from rwkv_data.sandbox.codec import UnreadableError, decode, encode, encode_or_digest
from rwkv_data.sandbox.frames import BrokenFrameError, read_all, read_frame, write_frame

SCRIPT_CODE = 3
CALLS, REPLIES, CALL_CODE = 3, 4, 5
MOST_CALL_BYTES = 1 << 28
MOST_TEXT = 2000

# What the contests' graders import before every answer (LiveCodeBench, testing_util.py): answers rely on it
CONTEST_MODULES = (
    *(
        "string",
        "re",
        "datetime",
        "collections",
        "heapq",
        "bisect",
        "copy",
        "math",
        "random",
        "statistics",
        "itertools",
    ),
    *("functools", "operator", "io", "sys", "json", "builtins", "typing"),
)
CONTEST_RECURSION = 50_000


@functools.cache
def preamble(name: str) -> dict[str, Any]:
    """Return the names that an answer finds defined: none, or those of a contest. Made once, in the zygote."""
    names: dict[str, Any] = {}
    if name == "contest":
        for module in CONTEST_MODULES:
            exec(f"from {module} import *", names)  # noqa: S102  # our own list
        names |= {module: __import__(module) for module in CONTEST_MODULES}
        del names["__builtins__"]
    return names


def run_script(names: dict[str, Any]) -> NoReturn:
    """Run the code as a program with the streams 0, 1 and 2. This process ends with its exit status."""
    source = read_all(SCRIPT_CODE)
    os.close(SCRIPT_CODE)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)), encoding="utf-8", errors="replace")
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w")), encoding="utf-8", errors="replace")
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), encoding="utf-8", errors="replace", write_through=True)
    status = _status_of(source, _namespace("__main__", names))
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter does when it ends
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException as error:  # noqa: BLE001  # the output is full, or the program broke the interpreter's shutdown
        status = status or _report(error)
    os._exit(status)


def _status_of(source: bytes, namespace: dict[str, Any]) -> int:
    try:
        exec(_program(source), namespace)  # noqa: S102  # this is the sandbox
    except SystemExit as leaving:
        return _exit_status(leaving.code)
    except BaseException as error:  # noqa: BLE001  # every error of the program ends it
        return _report(error)
    return 0


def _program(source: bytes) -> types.CodeType:
    """Return the compiled program. One that returns from its top level becomes a function, as in the contests'
    graders."""
    try:
        return compile(source, "<answer>", "exec")
    except SyntaxError as error:
        if "'return' outside function" not in str(error):
            raise
    import ast

    body = ast.parse(source).body
    imports = [line for line in body if isinstance(line, ast.Import | ast.ImportFrom)]
    function = ast.parse("def program(): pass\nprogram()").body
    assert isinstance(function[0], ast.FunctionDef)
    function[0].body = [line for line in body if line not in imports]
    return compile(ast.Module([*imports, *function], []), "<answer>", "exec")


def _exit_status(code: object) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _report(error: BaseException) -> int:
    import traceback

    gc.collect()  # frees memory, so that a MemoryError can be reported
    traceback.print_exception(error, limit=-8)
    return 1


def serve_calls(names: dict[str, Any]) -> NoReturn:
    """Load the code, then answer calls until the caller goes away."""
    source = read_all(CALL_CODE)
    os.close(CALL_CODE)
    namespace = _namespace("answer", names)
    try:
        _reply(_loaded(source, namespace))
        while True:
            _reply(_answer(read_frame(CALLS, MOST_CALL_BYTES), namespace))
    except BrokenFrameError:
        os._exit(0)


def _loaded(source: bytes, namespace: dict[str, Any]) -> bytes:
    """Execute the pieces of the code (divided by NUL) one after the other."""
    try:
        for piece in source.split(b"\0"):
            exec(compile(piece, "<answer>", "exec"), namespace)  # noqa: S102  # this is the sandbox
    except BaseException as error:  # noqa: BLE001  # told to the caller
        return _failure(error)
    return b"+0\nnull"


def _answer(request: bytes, namespace: dict[str, Any]) -> bytes:
    """Call what the request names (a function, or `Class().method`) and encode what it returns or raises."""
    name, _, text = request.partition(b"\n")
    try:
        arguments, keywords = decode(text, namespace)
        write = encode_or_digest if name.startswith(b"#") else encode
        function, begun = _find(name.decode().lstrip("#"), namespace), time.process_time()
        value = write(function(*arguments, **keywords))
        return f"+{time.process_time() - begun:.6f}\n{value}".encode()
    except UnreadableError as error:
        return _failure(NameError(str(error)))
    except BaseException as error:  # noqa: BLE001  # reported to the caller, SystemExit too
        return _failure(error)


def _find(name: str, namespace: dict[str, Any]) -> Any:
    head, _, method = name.partition("().")
    if head not in namespace:
        raise NameError(f"name {head!r} is not defined")
    found = namespace[head]
    return getattr(found(), method) if method else found


def _failure(error: BaseException) -> bytes:
    kind = type(error).__name__[:80].replace("\n", " ")
    try:
        text = str(error)[:MOST_TEXT]
    except BaseException:  # noqa: BLE001  # an exception's own __str__ is untrusted too
        text = ""
    return f"-{kind}\n{text}".encode(errors="replace")


def _reply(message: bytes) -> None:
    write_frame(REPLIES, message)


def _namespace(name: str, names: dict[str, Any]) -> dict[str, Any]:
    """Return the names of a fresh module, which holds the preamble."""
    module = types.ModuleType(name)
    sys.modules[name] = module  # dataclasses and others look their module up
    if names:
        sys.setrecursionlimit(CONTEST_RECURSION)
    module.__dict__.update(names)
    module.__dict__["__builtins__"] = builtins
    return module.__dict__
