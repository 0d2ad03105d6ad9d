"""What a sandboxed process sends back: values in the codec's form, frames on a pipe, a report."""

import json
import os
import random
from collections.abc import Iterator

from mutate import mutated

from rwkv_data.sandbox.codec import UnreadableError, decode, encode
from rwkv_data.sandbox.driver import CallFailedError, decode_reply
from rwkv_data.sandbox.frames import BrokenFrameError, read_frame
from rwkv_data.sandbox.program_outcomes import check_outcome

VALUES = (
    None,
    True,
    3,
    2**70,
    1.5,
    float("nan"),
    "text",
    b"bytes",
    [1, [2, (3,)]],
    {"a": {1, 2}, (1, 2): frozenset({3})},
    range(5),
    object(),
    1 + 2j,
    bytearray(b"x"),
    int,
    ["x"] * 50,
)
TEXTS = [encode(value).encode() for value in VALUES]
WORDS = (
    b'{"i": "0x',
    b'{"t": ',
    b'{"o": [1, "a", 0, ',
    b'{"h": 0}',
    b'{"r": "int"}',
    b'{"x": 1}',
    b"1" * 5000,
    b'{"c": [1, {"f": "inf"}]}',
    b'{"d": [[[1], 2]]}',
    b'{"s": [[1]]}',
    b"Infinity",
    b'{"b": "\\u1234"}',
)
REPORTS = [
    json.dumps(report).encode()
    for report in (
        {"starved": False, "passed": 3, "total": 3},
        {"failed": "timeout", "detail": "x", "starved": True},
        {"trouble": "Traceback"},
        {"failed": "raised", "detail": "ValueError: x", "starved": False},
    )
]
PROGRAM = {"cpu_s": 0.1, "asleep_s": 0.0, "sure": True, "ending": 0, "status": 0}
GUESTS = {"guests": [PROGRAM, {"cpu_s": 0.1, "ending": 0, "status": 0, "done": True}]}
MOST_FRAME = 1 << 16


def fuzz(draw: random.Random, rounds: int) -> Iterator[str]:
    """Each round one of the three."""
    for number in range(rounds):
        kind = (values, frames, reports)[number % 3]
        yield from kind(draw)


def values(draw: random.Random) -> Iterator[str]:
    data = mutated(draw, draw.choice(TEXTS), WORDS)
    for read in (decode, decode_reply):
        try:
            read(data)
        except (UnreadableError, CallFailedError):
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
            yield f"{read.__name__} of {data!r} raises {error!r}"


def frames(draw: random.Random) -> Iterator[str]:
    payload = draw.choice(TEXTS)
    data = mutated(draw, len(payload).to_bytes(4, "big") + payload)[:MOST_FRAME]
    reader, writer = os.pipe()
    try:
        os.write(writer, data)
        os.close(writer)
        if len(read_frame(reader, MOST_FRAME)) > len(data):
            yield f"a frame of {data!r} is longer than that"
    except BrokenFrameError:
        pass
    except Exception as error:  # noqa: BLE001
        yield f"a frame of {data!r} raises {error!r}"
    finally:
        os.close(reader)


def reports(draw: random.Random) -> Iterator[str]:
    data = mutated(draw, draw.choice(REPORTS))
    try:
        outcome = check_outcome(json.loads(json.dumps(GUESTS)), data)
    except Exception as error:  # noqa: BLE001
        yield f"a report of {data!r} raises {error!r}"
    else:
        if not isinstance(outcome.detail, str):
            yield f"a report of {data!r} has a detail that is no text"
