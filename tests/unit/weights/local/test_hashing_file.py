"""A file that is hashed while it is written, and items that are made one ahead."""

import hashlib
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_weights.local import hashing_file
from rwkv_weights.local.hashing_file import HashingFile, one_ahead


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_the_sum_is_that_of_what_is_written(pieces: list[bytes]) -> None:
    out = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as aside:
        patch.setattr(hashing_file, "ASIDE_BYTES", 20)
        hashing = HashingFile(out, aside)
        for piece in pieces:
            assert hashing.write(piece) == len(piece)
    assert out.getvalue() == b"".join(pieces)
    assert hashing.sha256 == hashlib.sha256(out.getvalue()).hexdigest()


def test_items_come_in_their_order_and_what_making_one_raises_is_raised() -> None:
    def making() -> Iterator[int | None]:
        yield 1
        yield None
        raise ValueError("the third")

    found: list[int | None] = []
    with ThreadPoolExecutor(1) as aside, pytest.raises(ValueError, match="the third"):
        found.extend(one_ahead(making(), aside))
    assert found == [1, None]
