"""Matching names against an operator's expressions, in a separate process with a time limit.

Some expressions take years on a short name, or seconds to compile, and the interpreter runs nothing else meanwhile:
within the daemon, one request would stop everything. A user has one such process at a time, and all users together have
few. The process is ended by SIGXCPU when its time is over; if it ends in another way, the expression is not to blame
and is tried once more.
"""

import asyncio
import contextlib
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from rwkv_daemon.rules.plan import SelectionError, no_expression
from rwkvctl.settings import config

CPU_S: Final = 5
"""Processor time for matching, in seconds: processor time, so that a busy machine makes no difference."""
MEMORY_BYTES: Final = 1 << 30
LIMIT_S: Final = 60.0
"""How long a turn, and then an answer, is waited for, in seconds."""
LONGEST: Final = 1000
"""Characters of all expressions together: long ones take long to compile."""
AT_ONCE: Final = 2
WAITING: Final = 4
"""Searches of one user, including the running one."""

PROGRAM: Final = """
import json, re, resource, sys, warnings
warnings.simplefilter("ignore")
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), 2 * int(sys.argv[1])))  # hard limit: SIGKILL
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
names, expressions = json.load(sys.stdin)
found, wrong = [], []
for one in expressions:
    try:
        re.compile(one)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        wrong.append([one, str(error) or "it takes too much memory"])
if not wrong:
    found = [name for name in names if any(re.search(one, name) for one in expressions)]
print(json.dumps({"found": found, "wrong": wrong}))
"""


class MatchResult(msgspec.Struct, frozen=True):
    """The names that match, and the invalid expressions with what is wrong about each."""

    found: list[str]
    wrong: list[tuple[str, str]]


@dataclass(slots=True)
class Searches:
    """The searches of all users: one of each user, and AT_ONCE in all, run at a time; others wait for their turn."""

    running: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    turns: defaultdict[Hashable, asyncio.Semaphore] = field(
        default_factory=lambda: defaultdict(lambda: asyncio.Semaphore(1))
    )
    asked: Counter[Hashable] = field(default_factory=Counter)

    async def matching(self, who: Hashable, expressions: Sequence[str], names: Sequence[str]) -> frozenset[str]:
        """Return the names in which one of the expressions is found. Raises SelectionError if an expression is invalid,
        or if matching takes too long."""
        if not expressions:
            return frozenset()
        if sum(map(len, expressions)) > LONGEST:
            raise SelectionError(f"--model-regex takes {LONGEST} characters in all.")
        async with self.turn(who):
            return await matching(expressions, names)

    @contextlib.asynccontextmanager
    async def turn(self, who: Hashable) -> AsyncIterator[None]:
        """Wait until this user may search. Raises SelectionError."""
        if self.asked[who] >= WAITING:
            raise SelectionError(
                f"--model-regex: {WAITING} searches of yours are under way or wait for their turn; "
                "ask again when they have ended."
            )
        self.asked[who] += 1
        try:
            async with contextlib.AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(LIMIT_S):
                        await stack.enter_async_context(self.turns[who])
                        await stack.enter_async_context(self.running)
                except TimeoutError as error:
                    raise SelectionError(
                        f"--model-regex: other searches took all of {LIMIT_S:.0f} s; try again."
                    ) from error
                yield
        finally:
            self.asked[who] -= 1
            if not self.asked[who]:
                del self.asked[who]
                self.turns.pop(who, None)


async def matching(expressions: Sequence[str], names: Sequence[str]) -> frozenset[str]:
    """Return the names in which one of the expressions is found. Raises SelectionError."""
    question = msgspec.json.encode((names, expressions))
    code, said = await asked(question)
    if code not in {0, -signal.SIGXCPU}:
        code, said = await asked(question)
    if code == -signal.SIGXCPU:
        text = f"--model-regex {' '.join(expressions)} takes too long to match; write it without nested repeats."
        raise SelectionError(text)
    if code:
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise SelectionError(
            f"--model-regex: the process that matches was ended from outside twice ({how}); try again."
        )
    answer = msgspec.json.decode(said, type=MatchResult)
    if answer.wrong:
        raise no_expression(*answer.wrong[0])
    return frozenset(answer.found)


async def asked(question: bytes) -> tuple[int, bytes]:
    """Return (exit code or negative signal, output) of one matching process. Raises SelectionError if it does not end
    in time."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-c", PROGRAM, str(CPU_S), str(MEMORY_BYTES), env=config.base_environment(),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(LIMIT_S):
            said, _ = await process.communicate(question)
            return await process.wait(), said
    except TimeoutError as error:
        raise SelectionError(
            f"--model-regex: no answer within {LIMIT_S:.0f} s, the machine is busy; try again."
        ) from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
