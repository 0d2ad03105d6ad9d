"""Which names match the expressions of an operator: found out in a process of its own, for a limited time.

Some expressions take years on a short name, and the interpreter lets nobody else run while it matches: here, one
request would stop the whole daemon. The process ends by SIGXCPU when its time is over; any other end is not the
expression's fault, and another process is asked once more.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from rwkv_daemon.plan import SelectionError, check_expression
from rwkvctl import config

CPU_S: Final = 5
"""What matching may take, in seconds of processor time: how busy the machine is makes no expression worse."""
LIMIT_S: Final = 60.0
"""How long an answer is waited for, in seconds."""
LONGEST: Final = 1000
"""Characters of all expressions together: long ones take long to compile."""

PROGRAM: Final = """
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), 2 * int(sys.argv[1])))  # at the second there is no telling
names, expressions = json.load(sys.stdin)
print(json.dumps([name for name in names if any(re.search(one, name) for one in expressions)]))
"""


async def matching(expressions: Sequence[str], names: Sequence[str]) -> frozenset[str]:
    """The names in which one of the expressions is found. Raises SelectionError where one is none, or where that cannot
    be found out in time."""
    if not expressions:
        return frozenset()
    if sum(map(len, expressions)) > LONGEST:
        raise SelectionError(f"--model-regex takes {LONGEST} characters in all.")
    for one in expressions:
        check_expression(one)
    question = msgspec.json.encode((names, expressions))
    code, found = await asked(question)
    if code not in {0, -signal.SIGXCPU}:
        code, found = await asked(question)
    if code == -signal.SIGXCPU:
        text = f"--model-regex {' '.join(expressions)} takes too long to match; write it without nested repeats."
        raise SelectionError(text)
    if code:
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise SelectionError(
            f"--model-regex: the process that matches was ended from outside twice ({how}); try again."
        )
    return frozenset(msgspec.json.decode(found, type=list[str]))


async def asked(question: bytes) -> tuple[int, bytes]:
    """(exit code or signal, answer) of one process. Raises SelectionError if neither comes in time."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", PROGRAM, str(CPU_S), env=config.base_environment(),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(LIMIT_S):
            found, _ = await process.communicate(question)
            return await process.wait(), found
    except TimeoutError as error:
        raise SelectionError(
            f"--model-regex: no answer within {LIMIT_S:.0f} s, the machine is busy; try again."
        ) from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
