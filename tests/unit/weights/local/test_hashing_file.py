"""A file that is hashed while it is written."""

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_weights.local import hashing_file
from rwkv_weights.local.hashing_file import HashingFile


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
