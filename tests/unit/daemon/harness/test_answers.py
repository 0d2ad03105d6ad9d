"""Answers that are kept from one attempt to the next."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.harness import answers
from rwkv_daemon.harness.answers import FILE, KeptAnswer, KeptAnswers

PATH = "/v1/completions"
Asked = list[tuple[bytes, KeptAnswer]]


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[KeptAnswers]:
    kept = KeptAnswers(folder)
    try:
        yield kept
    finally:
        kept.close()


def ask(kept: KeptAnswers, body: bytes, answer: KeptAnswer) -> KeptAnswer:
    """Ask as the relay does: what is kept, or else the answer, which is kept."""
    with kept.place(PATH, body) as place:
        if (known := kept.at(place)) is not None:
            return known
        kept.keep(place, answer)
        return answer


def everything(kept: KeptAnswers, bodies: set[bytes]) -> dict[bytes, list[KeptAnswer]]:
    """Read all that a freshly opened file has, by request."""
    found = {}
    for body in bodies:
        found[body] = list[KeptAnswer]()
        while True:
            with kept.place(PATH, body) as place:
                known = kept.at(place)
            if known is None:
                break
            found[body].append(known)
    return found


def by_request(asked: Asked) -> dict[bytes, list[KeptAnswer]]:
    found = defaultdict[bytes, list[KeptAnswer]](list)
    for body, answer in asked:
        found[body].append(answer)
    return found


ASKED = st.lists(
    st.tuples(
        st.sampled_from([b"", b"a", b"b"]), st.builds(KeptAnswer, st.text("ei0", max_size=3), st.binary(max_size=40))
    ),
    max_size=8,
)


@given(ASKED, ASKED, st.integers(0, 10_000))
def test_a_file_that_was_cut_off_anywhere_has_a_prefix_and_takes_more(
    tmp_path_factory: pytest.TempPathFactory, first: Asked, more: Asked, cut: int
) -> None:
    bodies = {body for body, _ in first + more}
    folder = tmp_path_factory.mktemp("answers")
    with opened(folder) as kept:
        for body, answer in first:
            assert ask(kept, body, answer) == answer
    file = folder / FILE
    content = file.read_bytes()
    file.write_bytes(content[: cut % (len(content) + 1)])
    with opened(folder) as kept:
        left = everything(kept, bodies)
    prefixes = [by_request(first[:count]) for count in range(len(first) + 1)]
    assert any(all(left[body] == whole[body] for body in bodies) for whole in prefixes)
    with opened(folder) as kept:
        answered = by_request([(body, ask(kept, body, answer)) for body, answer in more])
    with opened(folder) as kept:
        after = everything(kept, bodies)
    for body in bodies:
        before = left[body][: len(answered[body])]
        assert answered[body][: len(before)] == before
        assert after[body] == answered[body] + left[body][len(answered[body]) :]


def test_another_path_is_another_request(tmp_path: Path) -> None:
    with opened(tmp_path) as kept:
        ask(kept, b"a", KeptAnswer("e", b"1"))
    with opened(tmp_path) as kept, kept.place("/v1/chat/completions", b"a") as place:
        assert kept.at(place) is None


def test_an_attempt_is_not_answered_by_its_own_answers(tmp_path: Path) -> None:
    """Samples of one prompt would all be the same one."""
    with opened(tmp_path) as kept:
        assert [ask(kept, b"a", KeptAnswer("e", text)).body for text in (b"1", b"2")] == [b"1", b"2"]


def test_a_request_that_ended_by_an_error_gives_its_place_back(tmp_path: Path) -> None:
    with opened(tmp_path) as kept:
        with pytest.raises(KeyError), kept.place(PATH, b"a"):
            raise KeyError
        with kept.place(PATH, b"a") as place:
            assert place.number == 0
        with kept.place(PATH, b"a") as place:
            assert place.number == 1


def test_the_place_of_a_request_that_was_cancelled_is_not_given_twice(tmp_path: Path) -> None:
    """Of equal requests side by side, each has an answer of its own also after one of them is gone."""
    with opened(tmp_path) as kept, contextlib.ExitStack() as others:
        cancelled = kept.place(PATH, b"a")
        cancelled.__enter__()
        second = others.enter_context(kept.place(PATH, b"a"))
        with contextlib.suppress(KeyError):
            cancelled.__exit__(KeyError, KeyError(), None)
        numbers = [others.enter_context(kept.place(PATH, b"a")).number for _ in range(2)]
        assert (second.number, numbers) == (1, [0, 2])


def test_a_full_file_takes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path) as kept:
        ask(kept, b"a", KeptAnswer("e", b"1"))
    size = (tmp_path / FILE).stat().st_size
    monkeypatch.setattr(answers, "MOST_BYTES", size)
    with opened(tmp_path) as kept:
        assert ask(kept, b"b", KeptAnswer("e", b"2")).body == b"2"
    assert (tmp_path / FILE).stat().st_size == size


def test_a_damaged_answer_is_none(tmp_path: Path) -> None:
    with opened(tmp_path) as kept:
        ask(kept, b"a", KeptAnswer("e", b"1" * 50))
    content = bytearray((tmp_path / FILE).read_bytes())
    content[-3] ^= 255
    (tmp_path / FILE).write_bytes(content)
    with opened(tmp_path) as kept, kept.place(PATH, b"a") as place:
        assert kept.at(place) is None


def test_a_disk_that_is_full_costs_the_answer_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> int:
        raise OSError(28, "No space left on device")

    with opened(tmp_path) as kept, monkeypatch.context() as patch:
        patch.setattr(answers.os, "pwrite", full)
        assert ask(kept, b"a", KeptAnswer("e", b"1")).body == b"1"
    with opened(tmp_path) as kept:
        assert everything(kept, {b"a"}) == {b"a": []}


def test_only_its_user_reads_the_file_and_it_can_be_forgotten_twice(tmp_path: Path) -> None:
    with opened(tmp_path):
        assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    answers.forget(tmp_path)
    answers.forget(tmp_path)
    assert not (tmp_path / FILE).exists()
