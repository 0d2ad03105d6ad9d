"""A harness at work: its command line, what it hides, and what was seen of it."""

from pathlib import Path

import pytest
from harness_folders import MANIFEST

from rwkv_daemon.harness import environment, manifest, run
from rwkv_daemon.harness.enclosure import topmost
from rwkv_daemon.harness.environment import Asked, Places
from rwkv_daemon.harness.plans import plan_of
from rwkv_daemon.harness.supervision import Activity, readable_once
from rwkv_daemon.workers.run_directory import HarnessSpec, JobSpec


def test_a_command_has_the_words_of_the_settings_that_were_given_all_filled(tmp_path: Path) -> None:
    harness = HarnessSpec(
        name="mine", manifest=MANIFEST, folder="", own="", own_sha256="", weights_path="", weights_sha256="", task="a",
        settings={"shots": "{tasks}", "max_tokens": "5"}, hidden=("/h",),
    )  # fmt: skip
    spec = JobSpec(
        job=1, attempt=2, earlier=(), model="m", benchmark="mine:a", kind="k", settings={}, seed=0, limit=None,
        repeats=1, data_dir="", rows_sha256="", generation_key="", grade_key="", harness=harness,
    )  # fmt: skip
    places = Places(out=tmp_path / "out", cache=tmp_path / "c", venv=tmp_path / "venv", own=tmp_path / "own")
    asked = Asked(run="r", model="m", weights_path="", weights_sha256="", tasks="a", seed=0, max_tokens=5, api_key="k")
    one = manifest.parse(MANIFEST)
    words = run.words_of(one, environment.values(asked, places, one), harness.settings)
    copy = tmp_path / "copy"
    plan = plan_of(
        spec, one, asked, places, words, writable=(places.out, places.cache), sources={places.own: copy}, relay=""
    )
    assert plan.argv == (
        str(tmp_path / "venv" / "bin" / "python"), "run", "a", str(places.out),
        "--shots", "{tasks}", "--to", str(places.out),
    )  # fmt: skip
    assert plan.isolated
    assert plan.writable == (str(places.out), str(places.cache))
    assert plan.hidden == ("/h",)
    assert (plan.shown[str(places.own)], plan.shown[str(places.venv)]) == (str(copy), str(places.venv))


def test_folders_in_others_missing_ones_files_and_the_root_are_not_covered(tmp_path: Path) -> None:
    inner, other = tmp_path / "a" / "b" / "c", tmp_path / "ab"
    inner.mkdir(parents=True)
    other.mkdir()
    (tmp_path / "file").touch()
    paths = [inner, tmp_path / "a", other, tmp_path / "none", tmp_path / "file", Path("/"), other]
    assert topmost([str(path) for path in paths]) == [str(tmp_path / "a"), str(other)]
    assert topmost([]) == []


def test_a_link_counts_as_the_folder_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real" / "in").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert topmost([str(tmp_path / "link" / "in"), str(tmp_path / "link")]) == [str(tmp_path / "real")]


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([], ""),
        (["a\nb\n\n  \n"], "b"),
        (["a", "b\nc"], "c"),
        (["ValueError", ": ", "no such", " task", "\n"], "ValueError: no such task"),
        (["ValueError: x\n", "  5%|#   | 1/20\r", " 10%|##  | 2/20\r"], "ValueError: x"),
        (["ValueError: x\n", "  5", "%|#   | 1/20\r"], "ValueError: x"),
        (["ends\r\n"], "ends"),
        (["12.5it/s]\n"], ""),
        (["word without an end"], "word without an end"),
    ],
)
def test_last_words_are_the_last_line_however_it_was_written(pieces: list[str], words: str) -> None:
    activity = Activity()
    for piece in pieces:
        activity.wrote(piece)
    assert activity.last_words == words


def test_a_line_without_an_end_does_not_grow_for_ever() -> None:
    activity = Activity()
    for _ in range(3):
        activity.wrote("x" * 60_000)
    assert len(activity.last_words) < 70_000


def test_an_answered_request_is_a_sign_of_life_and_the_same_count_is_none() -> None:
    activity = Activity(begun=0.0, at=0.0)
    activity.asked(0, 0)
    assert activity.at == 0.0
    activity.asked(1, 0)
    assert activity.at > 0.0
    activity.at = 0.0
    activity.asked(1, 0)
    assert activity.at == 0.0
    activity.asked(1, 3)
    assert activity.at > 0.0, "it waits for answers"
    activity.at = 0.0
    activity.wrote("")
    assert activity.at > 0.0


def test_the_file_with_the_token_is_its_users_alone_and_gone_afterwards(tmp_path: Path) -> None:
    with readable_once(tmp_path / "plan", b"x"):
        assert (tmp_path / "plan").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "plan").read_bytes() == b"x"
    assert not (tmp_path / "plan").exists()


@pytest.mark.parametrize(("code", "number"), [(0, 0), (3, 0), (255, 0), (128, 0), (137, 9), (143, 15), (-9, 9)])
def test_an_exit_code_that_no_signal_gives_is_the_harness_s_own(code: int, number: int) -> None:
    assert run.signal_of(code) == number
