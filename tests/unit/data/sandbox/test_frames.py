"""Messages on a pipe, and limits."""

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.sandbox.budgets import sleep_for
from rwkv_data.sandbox.frames import BrokenFrameError, read_frame, write_frame
from rwkv_data.sandbox.program import Limits


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_messages_arrive_one_by_one(messages: list[bytes]) -> None:
    reading, writing = os.pipe()
    try:
        for message in messages:
            write_frame(writing, message)
        assert [read_frame(reading, 1000) for _ in messages] == messages
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("sent", [b"", b"\0\0", struct.pack(">I", 5) + b"abc", struct.pack(">I", 1 << 31), b"\xff" * 9])
def test_what_is_no_message_is_refused_without_reading_on(sent: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, sent)
    os.close(writing)
    try:
        with pytest.raises(BrokenFrameError):
            read_frame(reading, 1000)
    finally:
        os.close(reading)


def test_nobody_reads() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        with pytest.raises(BrokenFrameError, match="nobody reads"):
            write_frame(writing, b"x")
    finally:
        os.close(writing)


def test_the_clock_leaves_room_for_a_busy_machine() -> None:
    assert Limits(cpu_s=3).wall_limit_s == sleep_for(3) > 3 * 2
    assert Limits(cpu_s=3, wall_s=1.5).wall_limit_s == 1.5
