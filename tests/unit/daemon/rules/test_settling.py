"""When a checkpoint that is being copied may be hashed."""

from rwkv_daemon.rules.file_settling import CUT_OFF_S, STILL_S, Settling

PATH = "/w/m.pth"


def file(size: int, written: int = 0) -> tuple[int, int, int, int]:
    return (1, 2, size, written)


def test_a_file_that_lies_there_for_long_is_hashed_at_the_first_look() -> None:
    settling = Settling()
    assert settling.settled(PATH, file(9), 100.0, age_s=3600.0, whole=True)
    assert settling.said == ((), ())


def test_a_file_that_grows_is_being_copied_until_it_stands_still_and_is_whole() -> None:
    settling = Settling()
    for second in range(5):
        assert not settling.settled(PATH, file(second), 100.0 + second, age_s=0.0, whole=second == 4)
        assert settling.copying == {PATH}
    assert not settling.settled(PATH, file(4), 104.0 + STILL_S / 2, age_s=0.5, whole=True)
    assert settling.settled(PATH, file(4), 104.0 + STILL_S, age_s=1.0, whole=True)
    assert settling.said == ((), ())


def test_the_time_of_a_file_that_was_seen_to_change_tells_nothing() -> None:
    """`cp -p` and `rsync --inplace` give the copy the time of the original."""
    settling = Settling()
    assert not settling.settled(PATH, file(1), 100.0, age_s=0.0, whole=False)
    assert not settling.settled(PATH, file(2), 101.0, age_s=1e6, whole=True)
    assert settling.settled(PATH, file(2), 101.0 + STILL_S, age_s=1e6, whole=True)


def test_a_clock_that_was_set_back_holds_up_nothing() -> None:
    settling = Settling()
    assert not settling.settled(PATH, file(1), 100.0, age_s=-1e6, whole=True)
    assert settling.settled(PATH, file(1), 100.0 + STILL_S, age_s=-1e6, whole=True)


def test_half_a_file_that_stands_still_is_never_hashed_and_named_until_it_grows() -> None:
    settling = Settling()
    assert not settling.settled(PATH, file(1), 100.0, age_s=0.0, whole=False)
    assert not settling.settled(PATH, file(1), 100.0 + CUT_OFF_S, age_s=CUT_OFF_S, whole=False)
    assert settling.cut_off == {PATH: "m.pth is incomplete and no longer grows: was the copy interrupted?"}
    assert not settling.copying
    assert not settling.settled(PATH, file(2), 200.0, age_s=0.0, whole=False)
    assert (settling.copying, settling.cut_off) == ({PATH}, {})
    settling.keep([])
    assert settling == Settling()
