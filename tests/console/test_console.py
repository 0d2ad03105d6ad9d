"""The console, driven by keys against a daemon that plays."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkvctl.http import server
from rwkvctl.protocol.replies import ErrorReply
from rwkvctl.protocol.views import LeaseView
from rwkvctl.tui.dispatch.form import DispatchForm
from rwkvctl.tui.logs.view import LogView
from rwkvctl.tui.options import Options
from rwkvctl.tui.screens import load
from rwkvctl.tui.screens.overview import Overview
from rwkvctl.tui.shell import command_runner, help_text
from rwkvctl.tui.shell.dialogs import Question
from rwkvctl.tui.tabs import TABS
from rwkvctl.tui.widgets.table import VTable

SIZES = [(120, 36), (80, 24)]
ENVIRON = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}


@pytest.mark.parametrize("size", SIZES)
async def test_overview_shows_what_the_daemon_says(
    node: Any, socket_path: Path, driving: Any, size: tuple[int, int]
) -> None:
    async with driving.console(socket_path, size) as (app, _):
        text = await driving.until(
            app, "j1", "cpu:0", "e1 rwkv7", "Running 1", "Queue 1", "waits-for-engine", "Events", "stop…", "▸ run",
        )  # fmt: skip
        assert all(len(line) <= size[0] for line in text.splitlines())
        assert len(text.splitlines()) == size[1]


async def test_eight_gpus_six_jobs_and_the_queue_fit_a_small_terminal(
    socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node = fake_daemon.Node()
    node.lease_views = [
        LeaseView(id=f"GPU-{n}", index=str(n), name="NVIDIA H200", use="zombie" if n == 6 else "leased",
                    why="pid 31877 holds 40.9 GiB" if n == 6 else "", memory_used_bytes=93 * 2**30,
                    memory_total_bytes=141 * 2**30, utilisation=0.97, power_w=662, temperature_c=75)
        for n in range(8)
    ]  # fmt: skip
    node.engines = [fake_daemon.engine(id=f"e{n}", lease=f"GPU-{n}") for n in range(8) if n != 6]
    node.jobs = [fake_daemon.job(n, engine=f"e{n % 6}", running_score=fake_daemon.METRIC) for n in range(6)]
    node.jobs += [fake_daemon.job(n + 10, "queued", reason="waits-for-engine", done=0) for n in range(3)]
    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path, (80, 24)) as (app, pilot):
            text = await driving.until(app, "! zombie", "93/141", "662", "74.9 ±2.3", "j11", "8 GPU 7▸ 1!", "2Queu")
            assert text.count("▸ run") == 7
            assert "Events" not in text
            await pilot.resize_terminal(120, 36)
            await driving.until(app, "! gpu 6 zombie (K): pid 31877 holds 40.9 GiB", "Events", "━━━━━━━━━╸")


async def test_events_move_the_picture(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, _):
        await driving.until(app, "40/100")
        await driving.listening(node)
        node.change(1, done=77)
        await driving.until(app, "77/100")
        node.change(1, state="done")
        assert "generating to done" in await driving.until(app, "Running 0")


async def test_a_device_that_is_found_between_the_picture_and_the_first_event_is_not_missed(
    socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node = fake_daemon.Node(jobs=[], engines=[], lease_views=[])
    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path) as (app, _):
            await driving.until(app, "0 CPU")
            node.lease_views = [fake_daemon.lease()]  # no event says so
            await driving.until(app, "1 CPU", "cpu:0")


async def test_a_lost_daemon_is_said_greyed_and_found_again(socket_path: Path, driving: Any, fake_daemon: Any) -> None:
    node = fake_daemon.Node()
    async with driving.console(socket_path) as (app, _):
        await driving.until(app, "reconnecting")
        with fake_daemon.serving(socket_path, node):
            await driving.until(app, "● daemon up", "j1")
        text = await driving.until(app, "daemon gone", "as of")
        assert "j1" in text
        assert app.query_one("#running", VTable).stale
        node.tell("session", None, "told while nobody listened")
        with fake_daemon.serving(socket_path, node):
            await driving.until(app, "● daemon up", "told while nobody listened")
            assert not app.query_one("#running", VTable).stale


@pytest.mark.parametrize("size", SIZES)
async def test_what_is_not_heard_of_is_unknown_and_neither_nothing_nor_none(
    socket_path: Path, driving: Any, fake_daemon: Any, size: tuple[int, int]
) -> None:
    calm = (
        "no alerts",
        "no jobs are running",
        "no jobs are waiting",
        "no events",
        "no jobs",
        "Running 0",
        "Queue 0",
    )
    node = fake_daemon.Node(jobs=[], engines=[])
    async with driving.console(socket_path, size) as (app, _):
        text = await driving.until(app, "reconnecting", "Running · not known yet", "Queue · not known yet")
        assert not [words for words in calm if words in text]
        with fake_daemon.serving(socket_path, node):
            await driving.until(app, "no alerts", "no jobs are running", "no jobs are waiting", "Queue 0")
        text = await driving.until(app, "daemon gone", "alerts: not known since ", "Running · not known since")
        assert not [words for words in calm if words in text]
        for name in TABS:
            app.go(name)
            await driving.looking(app, lambda _, name=name: name == app.frame.view.NAME, f"{name} is shown")
            await driving.settled(app)
            assert not [words for words in calm if words in driving.screen_text(app)], name


async def test_a_log_is_caught_up_after_a_loss_and_says_so(socket_path: Path, driving: Any, fake_daemon: Any) -> None:
    node = fake_daemon.Node()
    async with driving.console(socket_path) as (app, pilot):
        with fake_daemon.serving(socket_path, node):
            await driving.until(app, "j1")
            await pilot.press("enter")
            await driving.until(app, "line 2")
        await driving.until(app, "daemon gone")
        node.log += "line 3, while nobody listened\nline 4\n"
        with fake_daemon.serving(socket_path, node):
            text = await driving.until(app, "line 4", "lines fetched")
            assert [word for word in ("line 2", "gap", "line 3") if word in text] == ["line 2", "gap", "line 3"]
            assert text.index("line 2") < text.index("2 lines fetched") < text.index("line 3")
            node.log += "line 5\n"
            await driving.until(app, "line 5")
            store = app.query_one(LogView).store
            lines = [store.line(number).decode() for number in range(store.first, store.end)]
            assert len([line for line in lines if " runner line " in line]) == 5


@pytest.mark.parametrize("size", SIZES)
async def test_enter_opens_the_job_with_log_and_samples(
    node: Any, socket_path: Path, driving: Any, size: tuple[int, int]
) -> None:
    async with driving.console(socket_path, size) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("enter")
        await driving.until(
            app, "The answer is 8.", "rwkv7-g1-2.9b × gsm8k cot", "line 2", "Samples, newest first", "40/100"
        )
        node.change(1, done=55)
        await driving.until(app, "55/100")
        node.log += "line 3\n"
        await driving.until(app, "line 3")
        await pilot.press("escape")
        await driving.until(app, "Running 1")


async def test_places_back_forward_and_before(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("enter")
        await driving.until(app, "Jobs › j1", "▸ generating")
        await pilot.press("right_curly_bracket")
        await driving.until(app, "Jobs › j2", "◌ queued")
        await pilot.press("left_square_bracket")
        await driving.until(app, "Jobs › j1")
        await pilot.press("left_square_bracket")
        await driving.until(app, "Running 1")
        await pilot.press("right_square_bracket")
        await driving.until(app, "Jobs › j1")
        await pilot.press("0")
        await driving.until(app, "keys of")
        for key, words in (("minus", "Jobs › j1"), ("1", "Running 1"), ("escape", "Jobs › j1"), ("q", "keys of")):
            await pilot.press(key)
            await driving.until(app, words)
        await pilot.press("escape", "escape", "q")
        await driving.until(app, "Running 1")


async def test_stop_asks_and_only_y_stops(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        for cancel in ("escape", "n", "enter", "q"):
            await pilot.press("s")
            await driving.until(app, "Stop j1?", "loses", "rwkvctl stop j1")
            await pilot.press(cancel)
            await driving.gone(app, "Stop j1?")
        assert not [asked for asked in node.asked if asked[1] == "/v1/stop"]
        await pilot.press("s")
        await driving.until(app, "Stop j1?")
        await pilot.press("y")
        await driving.until(app, "Running 0", "j1 stopped", "U undoes this: rwkvctl resume j1")
        (asked,) = [asked for asked in node.asked if asked[1] == "/v1/stop"]
        assert asked[3]["jobs"] == ["j1"]
        assert asked[3]["request_id"]
        assert app.commands == ["rwkvctl stop j1"]


async def test_verbs_act_on_marks(socket_path: Path, driving: Any, fake_daemon: Any) -> None:
    node = fake_daemon.Node(jobs=[fake_daemon.job(n) for n in range(1, 6)])
    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path) as (app, pilot):
            await driving.until(app, "j5")
            await pilot.press("space", "j", "space", "s")
            await driving.until(app, "Stop 2 jobs?", "rwkvctl stop j1 j3")
            await pilot.press("y")
            await driving.until(app, "Running 3")


async def test_nothing_is_changed_while_the_daemon_is_gone_or_when_only_reading(
    node: Any, socket_path: Path, driving: Any
) -> None:
    async with driving.console(socket_path, options=Options(environ=ENVIRON, read_only=True)) as (app, pilot):
        await driving.until(app, "j1")
        for keys in ("s", "D"):
            await pilot.press(keys)
            await driving.until(app, "This console is read-only")
            app.frame.hush()
            await driving.gone(app, "read-only")
        await pilot.press("colon", *"stop j1", "enter")
        await driving.until(app, "read-only: rwkvctl stop changes something")
        await pilot.press("escape")
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        app.state.lose("test", 1.0)
        await pilot.press("s")
        await driving.until(app, "nothing can be changed now")
        assert not isinstance(app.screen, Question)
    assert not [asked for asked in node.asked if asked[0] == "POST"]


@pytest.mark.parametrize("size", SIZES)
async def test_dispatch_previews_with_the_planner_then_confirms(
    node: Any, socket_path: Path, driving: Any, size: tuple[int, int]
) -> None:
    async with driving.console(socket_path, size) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("D")
        await driving.until(app, "New dispatch")
        await pilot.press(*"builtin", "tab", *"gsm8k", *["tab"] * 7, *"20", "enter")
        words = "rwkvctl dispatch --models builtin --only-datasets gsm8k --limit 20"
        assert "data-missing" in await driving.until(app, "dispatch these 1", words)
        planned = [asked[3] for asked in node.asked if asked[1] == "/v1/plan"][-1]
        assert planned["selection"]["models"] == ["builtin"]
        assert planned["selection"]["only_datasets"] == ["gsm8k"]
        assert planned["selection"]["limit"] == 20
        await pilot.press("y")
        await driving.until(app, "session s1", "U undoes this")
        sent = next(asked[3] for asked in node.asked if asked[1] == "/v1/dispatch")
        assert sent["plan_hash"] == "77c1aa03"
        assert sent["selection"] == planned["selection"]


async def test_dispatch_shows_a_refusal_and_stays(node: Any, socket_path: Path, driving: Any) -> None:
    error = ErrorReply(code="no-such-model", detail="No model matches x.", status=404, exit_code=4)
    node.answers["/v1/plan"] = lambda _: server.Response(404, msgspec.json.encode(error))
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("D")
        await driving.until(app, "New dispatch")
        await pilot.press("x", "colon", "enter")
        await driving.until(app, "No model matches x.", "--models x:")
        assert isinstance(app.screen, DispatchForm)
        await pilot.press("escape")
        await driving.gone(app, "New dispatch")


async def test_filter_follows_every_letter_stays_and_is_left_by_escape(
    socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    node = fake_daemon.Node(jobs=[fake_daemon.job(n, benchmark=f"task{n % 3}") for n in range(1, 10)])
    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path) as (app, pilot):
            await driving.until(app, "j9")
            await pilot.press("slash", *"task1")
            await driving.until(app, "/task1  3 of 9", " / task1")
            await pilot.press("escape")
            await driving.gone(app, "3 of 9")
            await pilot.press("slash", *"re:(")
            await driving.until(app, "is not a regular expression")
            await pilot.press("backspace", *"task2", "enter")
            await driving.until(app, "/re:task2  3 of 9")
            await driving.gone(app, "is not a regular expression")
            node.change(2, benchmark="other")
            await driving.until(app, "2 of 9")
            await pilot.press("slash", "up")
            await driving.until(app, " / re:task2")
            await pilot.press("escape", "escape")
            await driving.gone(app, "of 9")


async def test_keys_typed_right_behind_the_colon_belong_to_the_line(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        for key in ("colon", *"stop"):
            app.simulate_key(key)  # all at once, as a slow line delivers them
        await driving.until(app, " : stop")
        assert not isinstance(app.screen, Question)
        await pilot.press("ctrl+c")
        await driving.gone(app, " : stop")


async def test_the_command_line_runs_any_verb_and_shows_what_it_says(
    node: Any, socket_path: Path, driving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.jobs += node.jobs * 3
    options = Options(environ=ENVIRON, flags={"socket": str(socket_path)})
    async with driving.console(socket_path, options=options) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("colon", *"jobs --limit 9", "enter")
        await driving.until(app, "rwkvctl jobs --limit 9 · exit 0", "BENCHMARK", "▸ generating")
        await pilot.press("left_square_bracket", "colon", *"stop nope", "enter")
        await driving.until(app, "nope", "no such job", "Running 1")
        await pilot.press("colon", *"version --nonsense", "enter")
        await driving.until(app, "unknown flag '--nonsense'")
        await pilot.press("ctrl+c", "colon", "up")
        await driving.until(app, " : stop nope")
        await pilot.press("up")
        await driving.until(app, " : jobs --limit 9")
        await pilot.press("ctrl+c", "colon", *"job j2", "enter")
        await driving.until(app, "Jobs › j2")
        await pilot.press("colon", *"overview", "enter")
        await driving.until(app, "Running 1")
        await pilot.press("colon", "q", "enter")
    assert app.return_code == 0


async def test_a_command_that_goes_on_can_be_stopped(
    node: Any, socket_path: Path, driving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_runner, "BRIEF_S", 0.0)
    options = Options(environ=ENVIRON, flags={"socket": str(socket_path)})
    async with driving.console(socket_path, options=options) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("colon", *"logs j1 -f", "enter")
        await driving.until(app, "rwkvctl logs j1 -f · running", "line 2")
        node.log += "line 3\n"
        await driving.until(app, "line 3")
        await pilot.press("ctrl+c")
        await driving.until(app, "stopped")
        assert not app.commander.stop()


async def test_completion_knows_verbs_screens_and_ids(
    node: Any, socket_path: Path, driving: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RWKVCTL_SOCKET", str(socket_path))
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("colon", *"over", "tab")
        await driving.until(app, " : overview")
        await pilot.press("ctrl+c", "colon", *"stop ", "tab")
        await driving.until(app, " : stop j", "j1  j2")


async def test_help_comes_from_the_bindings_and_finds_a_key(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("question_mark")
        text = await driving.until(app, "keys of Overview", "this screen", "Stop…")
        for binding in Overview.BINDINGS:
            assert binding.description in text  # type: ignore[union-attr]
        await pilot.press("slash", *"mark")
        await driving.until(app, "Clear marks")
        await driving.gone(app, "Stop…")
        await pilot.press("enter", "question_mark")
        await driving.until(app, "Running 1")


async def test_every_screen_s_own_keys_are_in_its_help(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path, (80, 24)) as (app, pilot):
        await driving.until(app, "j1")
        for name, tab in TABS.items():
            if name == "help":
                continue
            app.go(name)
            app.action_help()
            text = await driving.until(app, f"keys of {tab.title}")
            for key in help_text.own_keys(load(name))[:6]:
                assert key.keys.split()[0] in text
            await pilot.press("escape")
            await driving.gone(app, f"keys of {tab.title}  ")


async def test_palette_goes_to_screens_jobs_and_verbs(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("ctrl+p", *"doctor")
        await driving.until(app, ":doctor")
        await pilot.press("enter")
        await driving.until(app, " : doctor")
        await pilot.press("ctrl+c", "ctrl+p", *"j2 rwkv")
        await driving.until(app, "job, queued")
        await pilot.press("enter")
        await driving.until(app, "Jobs › j2")


async def test_copy_and_export(
    node: Any, socket_path: Path, driving: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("y")
        await driving.until(app, "copied by terminal: j1")
        await pilot.press("Y")
        await driving.until(app, "copied by terminal: rwkvctl status")
        await pilot.press("x")
        await driving.until(app, "x rwkvctl-overview-running-")
        await pilot.press("enter")
        await driving.until(app, "1 rows written to")
        (written,) = tmp_path.glob("rwkvctl-overview-running-*.csv")
        assert written.read_text(encoding="utf-8").splitlines()[1].startswith("j1,rwkv7-g1-2.9b,gsm8k,cot,")
        await pilot.press("x", "ctrl+u", *"out.exe", "enter")
        await driving.until(app, "must end in")


async def test_the_newest_event_is_on_top_whatever_the_size_was_and_the_wheel_did(
    node: Any, socket_path: Path, driving: Any
) -> None:
    async with driving.console(socket_path, (120, 40)) as (app, pilot):
        await driving.until(app, "j1")
        await driving.listening(node)
        for number in range(1, 30):
            node.tell("session", None, f"told {number}")
        await driving.until(app, "told 29")
        for size in ((120, 36), (100, 33), (130, 50)):
            await pilot.resize_terminal(*size)
            await driving.until(app, "told 29")
        app.query_one("#events", VTable).scroll_to(y=12, animate=False, force=True)
        await driving.gone(app, "told 29")
        node.tell("session", None, "told 30")
        await driving.until(app, "told 30")


async def test_a_large_terminal_has_tonights_results_and_small_ones_do_not(
    socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    now = fake_daemon.now()
    ended = [
        fake_daemon.job(3, "done", finished=now, score=fake_daemon.score(3)),
        fake_daemon.job(4, "failed", finished=now, failure="model", detail="out of memory"),
        fake_daemon.job(5, "done", finished="2020-01-01T00:00:00.000Z", score=fake_daemon.score(5)),
    ]
    node = fake_daemon.Node(jobs=[fake_daemon.job(1), *ended])
    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path, (200, 60)) as (app, pilot):
            text = await driving.until(app, "Ended in the last 24 h 2 · 1 done · 1 failed", "✓ done", "74.9 ±2.3")
            assert "out of memory" in text
            assert "j5" not in text
            await driving.listening(node)
            node.change(1, state="done", finished=now, done=100)
            await driving.until(app, "Ended in the last 24 h 3 · 2 done")
            await pilot.press("tab", "tab", "enter")
            await driving.until(app, "Jobs › j")
            await pilot.press("q")
            for size in ((120, 36), (80, 24)):
                await pilot.resize_terminal(*size)
                await driving.gone(app, "Ended in the last")


async def test_the_bar_of_screens_stays_on_eighty_columns(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path, (80, 24)) as (app, pilot):
        text = await driving.until(app, "1Overview 2Queu 3Jobs", "j1")
        bar = text.splitlines()[1]
        for name, tab in TABS.items():
            assert not tab.key or f" {tab.key}{tab.title[:3]}" in bar, name
        await pilot.press("8")
        text = await driving.until(app, "8Weights")
        assert len(text.splitlines()[1]) <= 80
        await pilot.resize_terminal(60, 20)
        await driving.gone(app, "2Queu")


async def test_columns_without_a_value_go_before_a_name_is_cut(
    socket_path: Path, driving: Any, fake_daemon: Any
) -> None:
    name = "g1a-2.9b-20260801"
    node = fake_daemon.Node(
        jobs=[fake_daemon.job(2, "queued", model=f"rwkv7-{name}-ctx4096", done=0, reason="waits-for-engine")]
    )
    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path, (80, 24)) as (app, _):
            text = await driving.until(app, "waits-for-engine", name)
            assert "START" not in text
            await driving.listening(node)
            node.change(2, starts_s=60.0, eta_s=120.0)
            await driving.until(app, "START", "in 1m00s")


async def test_zoom_and_panels(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("tab", "z")
        await driving.gone(app, "Running 1")
        await driving.until(app, "Queue 1")
        await pilot.press("escape")
        await driving.until(app, "Running 1", "Queue 1")
        assert app.focused is not None
        assert app.focused.id == "queue"
        await pilot.press("2")
        await driving.until(app, "Queue › preview of everything")
        await pilot.press("1")
        await driving.until(app, "Queue 1")
        assert app.focused is not None
        assert app.focused.id == "queue"


async def test_themes_go_round_and_nothing_is_lost(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await driving.settled(app)
        before = driving.screen_text(app).split("\n")[1:-8]
        for name in ("light", "ansi", "mono", "dark"):
            await pilot.press("ctrl+t")
            await driving.until(app, f"theme {name}")
            assert driving.screen_text(app).split("\n")[1:-8] == before
            assert app.look.name == name


async def test_ascii_and_mono_say_the_same_without_signs_or_colours(node: Any, socket_path: Path, driving: Any) -> None:
    options = Options(environ={"TERM": "xterm", "NO_COLOR": "1"}, ascii=True)
    async with driving.console(socket_path, options=options) as (app, _):
        text = await driving.until(app, "Running 1", "> run", "> generating", "o queued")
        assert text.isascii()
        styles = {segment.style for line in app.screen._compositor.render_strips() for segment in line if segment.style}
        assert all(style.color is None or style.color.is_default for style in styles)


async def test_ctrl_c_twice_leaves(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("ctrl+c")
        await driving.until(app, "again to quit the console")
        await pilot.press("ctrl+c")
    assert app.return_code == 0


@pytest.mark.parametrize("name", [name for name in TABS if name != "overview"])
async def test_q_leaves_every_screen_and_on_the_overview_the_console(
    node: Any, socket_path: Path, driving: Any, name: str
) -> None:
    async with driving.console(socket_path, (80, 24)) as (app, pilot):
        await driving.until(app, "j1", "q leave")
        app.go(name, {"job": "j1", "samples": "j1", "sample": "j1:1", "compare": "j1 j2"}.get(name, ""))
        await driving.looking(app, lambda _: name == app.frame.view.NAME, f"{name} is shown")
        await pilot.press("q")
        await driving.looking(app, lambda _: app.frame.view.NAME == "overview", "the Overview is shown")
        assert app.is_running
        await pilot.press("q")
    assert app.return_code == 0


async def test_q_goes_out_of_what_is_narrowed_first_and_is_a_letter_where_one_types(
    node: Any, socket_path: Path, driving: Any
) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("slash", "q", "enter")
        await driving.until(app, "/q  0 of 1")
        await pilot.press("q")
        await driving.gone(app, "/q")
        await pilot.press("space", "z")
        await driving.until(app, "1 marked")
        await pilot.press("q", "q", "4", "q")  # out of the zoom and the marks, to Scores and back: each key in its turn
        await driving.settled(app)
        assert app.is_running
        assert app.places.here.name == "overview"
        await pilot.press("q")
    assert app.return_code == 0


async def test_cursor_stays_on_its_job(socket_path: Path, driving: Any, fake_daemon: Any) -> None:
    node = fake_daemon.Node(jobs=[fake_daemon.job(n) for n in range(1, 6)])
    with fake_daemon.serving(socket_path, node):
        async with driving.console(socket_path, (80, 24)) as (app, pilot):
            await driving.until(app, "j5")
            await driving.listening(node)
            await pilot.press("down", "down")
            table = app.query_one("#running", VTable)
            assert table.chosen == "j3"
            node.change(1, state="done")
            await driving.until(app, "Running 4")
            assert table.chosen == "j3"


async def test_a_click_on_a_key_presses_it(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "? help", "j1")
        await driving.settled(app)  # the keys are those of the panel that has them
        line = driving.screen_text(app).split("\n")[-1]
        await pilot.click("#keys", offset=(line.index("help"), 0))
        await driving.until(app, "keys of Overview")


async def test_every_key_of_the_help_can_be_pressed_anywhere(node: Any, socket_path: Path, driving: Any) -> None:
    """No key of any screen crashes the console, whatever is in front: with a job, without one, with the daemon gone.
    A screen's keys are pressed on each; those of the whole console, or of a kind of widget, where they first occur."""
    pressed = set[tuple[type, str]]()
    async with driving.console(socket_path, (80, 24)) as (app, pilot):
        await driving.until(app, "j1")
        for place in ("overview", "queue", "jobs", "job"):
            app.go(place)
            await driving.settled(app)
            for key, active in list(app.screen.active_bindings.items()):
                what = (type(active.node), active.binding.action)
                if active.binding.action in {"quit", "leave", "interrupt"} or what in pressed:
                    continue
                pressed.add(what)
                await pilot.press(key)
                for _ in range(4):
                    if app.screen is app.frame and not app.frame.prompt.display:
                        break
                    await pilot.press("escape")
                    await driving.settled(app)
                if app.places.here.name != place:
                    app.go(place)
        app.go("overview")
        await driving.until(app, "Running")
        assert not re.search(r"Traceback", driving.screen_text(app))
        assert len(pressed) > 100


async def test_a_plan_is_never_shown_under_other_filters(node: Any, socket_path: Path, driving: Any) -> None:
    async with driving.console(socket_path) as (app, pilot):
        await driving.until(app, "j1")
        await pilot.press("2")
        await driving.until(app, "preview of everything")
        app.go("queue", "--limit 9")
        assert app.frame.view.planned is None
        await driving.until(app, "preview of --limit 9")
