"""The child process in which model text becomes mathematics: `python -m rwkv_data.graders.maths.worker`.

One JSON line in ({"do": task, "cpu_s": limit, ...}, the tasks are in `maths_tasks`), one JSON line out. It runs here
because math-verify works only in a process's main thread, and because comparing can hang or eat memory. The limit is
processor time (the signal SIGPROF ends the process), so that a verdict does not depend on what else the machine does;
memory is limited, and no text is ever evaluated (see no_evaluation, unprivileged). The parent sees how a child died.
"""

import json
import os
import signal
import sys
import time
from importlib.metadata import version
from importlib.util import find_spec
from typing import IO, Any

MEMORY_BYTES = 2 * 1024**3


def main() -> None:
    """Answer tasks until the parent closes the pipe."""
    replies = _private_stdout()
    confine()
    from rwkv_data.graders.maths.worker.maths_tasks import TASKS

    libraries = ("math-verify", "latex2sympy2_extended", "sympy")
    _say(replies, {"ready": {name: version(name) for name in libraries}})
    for line in sys.stdin:
        task = json.loads(line)
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, task.pop("cpu_s"))
        reply = _done(TASKS[task.pop("do")], task)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _say(replies, reply | {"took_s": time.process_time() - begun})


def confine() -> bool:
    """Load the libraries and give up all privileges that they do not need. Returns whether the network is out of
    reach."""
    from rwkv_data.graders.maths.worker import maths_tasks, no_evaluation
    from rwkv_data.sandbox import unprivileged

    must_read = [os.__file__, __file__, *(str(find_spec(name).origin) for name in ("sympy", "math_verify"))]  # type: ignore[union-attr]
    secluded = unprivileged.seclude(must_read)
    maths_tasks.load()
    unprivileged.give_up(MEMORY_BYTES, must_read)
    no_evaluation.install()
    return secluded


def _done(task: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        reply: dict[str, Any] = task(**arguments)
    except (MemoryError, RecursionError) as error:
        return {"gave_up": type(error).__name__}
    return reply


def _private_stdout() -> IO[str]:
    """Return the pipe to the parent, and redirect standard output so that nothing else prints to it."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)
    return replies


def _say(replies: IO[str], message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


if __name__ == "__main__":
    main()
