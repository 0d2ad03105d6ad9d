"""Compile a grammar in a child process first, where time and memory are limited.

The cost of compiling a schema or an expression is not bounded by its length (a few kilobytes can take minutes), and a
compilation in this process cannot be interrupted. In the child a timer ends the process, which refuses the grammar. The
child compiles one grammar after the other, knows no model and no vocabulary, and ends when its parent closes the pipe.

This file is also the child's program: it imports nothing of the engine.
"""

import contextlib
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

CPU_S = 2.0
MEMORY_BYTES = 1 << 30
STACK_BYTES = 4 << 20  # half of what a thread of the engine has: what overflows there overflows here first
EXIT_WAIT_S = 10.0
OUTSIDE_SIGNALS = {
    signal.SIGKILL,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGINT,
}  # the limits of the child send other signals


class TrialCompiler:
    """The child process, started when it is first needed and again after it died. May be used from any thread."""

    def __init__(self, cpu_s: float = CPU_S) -> None:
        self._cpu_s = cpu_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None

    def fault(self, grammar: str) -> str:
        """Return why a grammar cannot be used; empty if it can. A child that is killed from outside says nothing about
        the grammar, so a second child is asked."""
        code = 0
        with self._lock:
            for _ in range(2):
                if self._child is None or self._child.poll() is not None:
                    self._child = _start(self._cpu_s)
                answer = _ask(self._child, grammar)
                if answer is not None:
                    return answer
                code = self._exit_status()
                if -code not in OUTSIDE_SIGNALS:
                    break
        if code > 0 or -code in OUTSIDE_SIGNALS:
            return f"the child process that compiles it failed ({code})"
        return f"it takes more than {self._cpu_s:g} s or {MEMORY_BYTES >> 20} MiB to compile"

    def _exit_status(self) -> int:
        """Wait for the child's end and return its exit status, negative for a signal."""
        assert self._child is not None
        child, self._child = self._child, None
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(EXIT_WAIT_S)
        _end(child)
        return child.returncode

    def close(self) -> None:
        """Kill the child, if there is one; the next `fault` starts another."""
        with self._lock:
            if self._child is not None:
                _end(self._child)
                self._child = None


def _start(cpu_s: float) -> subprocess.Popen[str]:
    argv = [
        sys.executable,
        "-P",
        str(Path(__file__)),
        str(cpu_s),
    ]  # -P: this folder is no import path, as its modules have common names
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _end(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(BrokenPipeError), child:
        child.kill()


def _ask(child: subprocess.Popen[str], grammar: str) -> str | None:
    """Return the child's answer, or None if it died while it compiled."""
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(json.dumps(grammar) + "\n")
        child.stdin.flush()
    except BrokenPipeError:
        return None
    line = child.stdout.readline()
    return str(json.loads(line)) if line else None


def main(cpu_s: float) -> None:
    """Run the child: compile each grammar read from standard input (a JSON string a line) and write its error, or an
    empty string. A grammar that takes more than `cpu_s` seconds of processor time ends the process."""
    import resource

    from llguidance import LLMatcher, LLTokenizer

    tokenizer = LLTokenizer("byte")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, STACK_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, cpu_s)  # processor time: a busy machine makes no grammar worse
        matcher = LLMatcher(tokenizer, json.loads(line), log_level=0)
        matcher.compute_bitmask()
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.write(json.dumps(matcher.get_error()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]))
