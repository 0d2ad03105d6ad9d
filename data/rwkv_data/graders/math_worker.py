"""The child process in which math-verify reads model text: `python -m rwkv_data.graders.math_worker`.

One JSON line in ([gold, answer], both LaTeX), one JSON line out. math-verify works only in a process's main thread,
can hang, and hands its input to sympy's parser: so it runs here, with limits on memory and processor time, without
the caller's environment, and its parent kills it when an answer is late. Its own timeouts are off, because they turn
a hang into a wrong answer.
"""

import json
import os
import resource
import sys
from importlib.metadata import version
from typing import IO, Any

MEMORY_BYTES = 2 * 1024**3
CPU_PER_TASK_S = 15


def main() -> None:
    """Answer tasks until the parent closes the pipe."""
    replies = _private_stdout()
    import math_verify

    _limit()
    libraries = ("math-verify", "latex2sympy2_extended", "sympy")
    _say(replies, {"ready": {name: version(name) for name in libraries}})
    for line in sys.stdin:
        _allow_more_cpu()
        gold, answer = json.loads(line)
        _say(replies, _verdict(math_verify, gold, answer))


def _verdict(math_verify: Any, gold: str, answer: str) -> dict[str, Any]:
    """Whether they are equal; or that one of the sides could not be read; or what broke."""
    try:
        parsed_gold, parsed = (math_verify.parse(f"${side}$", parsing_timeout=None) for side in (gold, answer))
        if not parsed_gold:
            return {"error": "math-verify cannot read the reference"}
        equal = math_verify.verify(parsed_gold, parsed, timeout_seconds=None, raise_on_error=False)
    except (MemoryError, RecursionError) as error:
        return {"error": f"math-verify gave up: {type(error).__name__}"}
    return {"equal": bool(equal), "read": bool(parsed)}


def _private_stdout() -> IO[str]:
    """The pipe to the parent, out of reach of anything that prints."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    return replies


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    _allow_more_cpu()


def _allow_more_cpu() -> None:
    """A child whose parent died in the middle of a hang must end too."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used_s = int(usage.ru_utime + usage.ru_stime) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (used_s + CPU_PER_TASK_S, hard))


def _say(replies: IO[str], message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


if __name__ == "__main__":
    main()
