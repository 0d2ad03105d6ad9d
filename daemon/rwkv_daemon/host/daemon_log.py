"""The daemon's log on standard error: for people, for the journal, or as JSON lines; and no flood of repeats.

    text      2026-11-22 07:30:53 INFO rwkv7-g1 gsm8k cot: done job=j12 session=...
    journal   <6>rwkv7-g1 gsm8k cot: done job=j12 ...          the journal keeps time and priority itself
    json      {"at": "...", "level": "info", "message": "...", "job": "j12"}

What a record is about travels as `extra=` fields: job, engine, attempt, session.
"""

import errno
import json
import logging
import os
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rwkv_daemon.store import ConflictError, StoreError
from rwkvctl.protocol.events import Event
from rwkvctl.text.sanitize import safe_line, safe_text

log: Final = logging.getLogger("rwkvctl")

FIELDS: Final = ("job", "engine", "attempt", "session")
PRIORITIES: Final = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
"""syslog(3)'s numbers, which the journal reads from `<N>` at the beginning of a line."""

WINDOW_S: Final = 60.0
AT_MOST: Final = 5
"""How many times the same message is logged within a window."""
KNOWN_AT_MOST: Final = 1000
LONGEST: Final = 4000
"""Characters of a message."""
LACKS: Final = frozenset({errno.EAGAIN, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC})
"""Errors that mean that the machine has run out of something; they are logged without a traceback, since they are no
bug."""


class TextFormatter(logging.Formatter):
    """Lines for people: time in UTC, level, message, and the `extra=` fields."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"{at} {record.levelname} {said(self, record)}"


class JournalFormatter(logging.Formatter):
    """Lines for the journal: each has its priority, those of a traceback too."""

    def format(self, record: logging.LogRecord) -> str:
        prefix = f"<{priority(record.levelno)}>"
        return "\n".join(prefix + line for line in said(self, record).split("\n"))


class JsonFormatter(logging.Formatter):
    """Lines for a log collector: one JSON object each."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found: dict[str, object] = {
            "at": at,
            "level": record.levelname.lower(),
            "message": shortened(record.getMessage()),
        }
        found |= dict(fields_of(record))
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


def said(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """Return the message on one line, the `extra=` fields, and the traceback if there is one. Control characters are
    made visible: a line feed or a NUL from a client, a file or a foreign process would begin a line that looks like
    another message of ours."""
    about = "".join(f" {name}={value}" for name, value in fields_of(record))
    trace = f"\n{safe_text(formatter.formatException(record.exc_info))}" if record.exc_info else ""
    return f"{safe_line(shortened(record.getMessage()) + about)}{trace}"


def shortened(text: str) -> str:
    """Cut a message that is too long: parts of it may come from clients."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"


def fields_of(record: logging.LogRecord) -> Iterator[tuple[str, object]]:
    """Return the `extra=` fields of a log record (job, engine, ...) that are set, as (name, value)."""
    return ((name, value) for name in FIELDS if (value := record.__dict__.get(name)))


def fields(event: Event) -> dict[str, str]:
    """Return the job, engine and session of an event as fields for `extra=`."""
    return {"job": event.job, "engine": event.engine, "session": event.session}


def priority(level: int) -> int:
    """Return a level as syslog's number; 7 is for debugging."""
    return next((number for least, number in PRIORITIES if level >= least), 7)


@dataclass(slots=True)
class RepeatCount:
    """How often a message was logged since `since`."""

    since: float
    times: int = 0


class Repeats(logging.Filter):
    """Lets the same message pass a few times a minute. The rest is counted, and the count added to the next one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.clock = clock
        self.seen: OrderedDict[tuple[int, str], RepeatCount] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        text = shortened(record.getMessage())
        now, key = self.clock(), (record.levelno, text)
        seen = self.seen.pop(key, None) or RepeatCount(now)
        if now - seen.since > WINDOW_S:
            if (left_out := seen.times - AT_MOST) > 0:
                record.msg, record.args = f"{text} ({left_out} more like this were left out)", ()
            seen = RepeatCount(now)
        seen.times += 1
        self.seen[key] = seen
        if len(self.seen) > KNOWN_AT_MOST:
            self.seen.popitem(last=False)
        return seen.times <= AT_MOST


def shorten_lack_errors(record: logging.LogRecord) -> None:
    """Replace the traceback by a sentence if the machine had no room, memory, processes or open files left, or the
    store did not answer."""
    error = record.exc_info[1] if record.exc_info else None
    lacks = isinstance(error, OSError) and error.errno in LACKS
    if lacks or (isinstance(error, StoreError) and not isinstance(error, ConflictError)):
        why = error.strerror if isinstance(error, OSError) else error
        record.msg, record.args, record.exc_info = f"{record.getMessage()}: {why}", (), None


class StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to standard error; knows whether that is the journal."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        super().__init__(sys.stderr)
        self.to_journal = is_journal(variables.get("JOURNAL_STREAM", ""), sys.stderr.fileno())
        self.counts: Counter[str] = Counter()
        self.repeats = Repeats()
        self.choose("auto")

    def filter(self, record: logging.LogRecord) -> bool:
        """Count the record by its level; return False for a repeat that is to be left out."""
        shorten_lack_errors(record)
        self.counts[record.levelname.lower()] += 1
        return self.repeats.filter(record)

    def choose(self, wanted: str) -> None:
        """Write in a format; `auto` is the journal's if the journal listens, else text."""
        chosen = wanted if wanted != "auto" else "journal" if self.to_journal else "text"
        self.setFormatter({"journal": JournalFormatter, "json": JsonFormatter}.get(chosen, TextFormatter)())


def is_journal(stream: str, descriptor: int) -> bool:
    """Whether a descriptor is the stream that $JOURNAL_STREAM names (`DEVICE:INODE`): a child's may be another one."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return stream == f"{found.st_dev}:{found.st_ino}"


def set_up(variables: Mapping[str, str]) -> None:
    """Log to standard error from now on."""
    logging.basicConfig(level=logging.INFO, handlers=[StderrHandler(variables)], force=True)


def ours() -> Iterator[StderrHandler]:
    """Yield our handler, if logging is set up."""
    return (handler for handler in logging.getLogger().handlers if isinstance(handler, StderrHandler))


def counted() -> dict[str, int]:
    """Return the number of log lines by level, repeats included."""
    return dict(sum((handler.counts for handler in ours()), Counter()))


def set_format(wanted: str) -> None:
    """Switch the daemon's log to another format."""
    for handler in ours():
        handler.choose(wanted)
