"""What happened comes first: on a narrow screen the end of a sentence is cut off."""

from rwkvctl.tui.daemon.event_wording import news


def test_what_became_of_a_job_comes_before_its_names() -> None:
    assert news("j1", "m b k: done") == "done · m b k"
    assert news("j1", "m b k: failed (no room: 3 GiB short)") == "failed (no room: 3 GiB short) · m b k"


def test_sentences_of_another_form_stay_as_they_are() -> None:
    assert news("", "m b k: done") == "m b k: done"
    assert news("j1", "j1: its runner (pid 7) is asked to stop") == "j1: its runner (pid 7) is asked to stop"
    assert news("j1", "") == ""
