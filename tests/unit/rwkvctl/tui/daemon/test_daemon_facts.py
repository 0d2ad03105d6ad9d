"""What the console says of the daemon, while it answers and while it does not."""

from pathlib import Path

from rwkvctl.protocol.replies import InfoReply
from rwkvctl.protocol.service import FamilyView, Figure, MetricsReply, SettingView
from rwkvctl.tui.daemon import facts
from rwkvctl.tui.daemon.facts import DaemonReplies, OutsideView
from rwkvctl.tui.daemon.offline_probe import command_lines
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.widgets.strips import Pieces

INFO = InfoReply(version="0.1.0", api_min=1, api_max=1, pid=42, home="/h", started="2026-11-22T10:00:00.000Z")
FREE = SettingView(name="min_free_disk_bytes", value=2**30, origin="default")


def figure(name: str, value: float) -> FamilyView:
    return FamilyView(name=name, type="gauge", help="", figures=(Figure(value=value),))


def text(lines: list[Pieces]) -> str:
    return "\n".join("".join(piece for piece, _ in line) for line in lines)


def role(lines: list[Pieces], words: str) -> str:
    return next(role for line in lines for piece, role in line if words in piece)


def test_a_daemon_that_answers() -> None:
    state = ConsoleState(started=1000.0, heard_at=1090.0, disk_free_bytes=2**31, counts={"done": 3, "held": 0}, seq=7)
    metrics = MetricsReply(items=(
        figure("process_resident_memory_bytes", 80 * 2**20), figure("process_open_fds", 23.0),
        figure("rwkvctl_event_loop_lag_seconds", 0.001), figure("rwkvctl_event_loop_lag_worst_seconds", 2.0),
        figure("rwkvctl_store_bytes", 2**20), figure("rwkvctl_events_total", 8.0),
    ))  # fmt: skip
    settings = {"store": SettingView(name="store", value="/h/store.sqlite", origin="default"), FREE.name: FREE}
    lines = facts.facts(state, DaemonReplies(INFO, metrics, settings, ("the queue is paused",)))
    shown = text(lines)
    for words in ("0.1.0  protocol 1  pid 42  up 1m30s  since 2026-11-22 10:00 UTC", "80.0 MiB resident  23 open files",
                  "SQLite /h/store.sqlite  1.0 MiB  ? samples", "2.0 GiB free  no job starts below 1.0 GiB", "3 done",
                  "8 stored, last received 7", "note      the queue is paused", "rwkvctl backup FILE"):  # fmt: skip
        assert words in shown
    assert role(lines, "2000 ms") == "warn"
    assert role(lines, "1 ms") == ""
    assert role(lines, "2.0 GiB") == "warn"
    state.disk_free_bytes = 2**29
    assert role(facts.facts(state, DaemonReplies(INFO, metrics, settings)), "512.0 MiB free") == "bad"


def test_a_store_on_a_server_is_named_as_such() -> None:
    url = SettingView(name="store", value="postgresql://u@host/db", origin="/etc/rwkvctl/config.toml:2")
    assert facts.store({"store": url}) == "PostgreSQL postgresql://u@host/db"
    assert facts.store({}) == "?"


def test_a_daemon_that_is_gone() -> None:
    state = ConsoleState(problem="no daemon answers on /s", heard_at=1.0, lost_at=100.0, retry_at=116.0)
    shown = text(facts.gone(state, 114.0, OutsideView("rwkvctl.service activating (auto-restart)", 2, 4)))
    for words in ("gone for 14s  next try in 2s", "no daemon answers on /s", "activating (auto-restart)",
                  "2 engines and 4 runners are alive; they continue"):  # fmt: skip
        assert words in shown
    assert "not connected yet" in text(facts.gone(ConsoleState(problem="p"), 1.0, OutsideView()))
    assert "knows no service" in text(facts.gone(state, 114.0, OutsideView()))
    assert "no engine or runner is alive" in text(facts.gone(state, 114.0, OutsideView()))
    assert "another machine" in text(facts.gone(state, 114.0, OutsideView(local=False)))


def test_what_systemd_says() -> None:
    said = "LoadState=loaded\nActiveState=activating\nSubState=auto-restart\nResult=signal\nExecMainStatus=9\n"
    said += "NRestarts=3\n"
    assert facts.service_sentence(said) == (
        "rwkvctl.service activating (auto-restart), ended by signal 9, restarted 3 times"
    )
    assert facts.service_sentence("LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\n") == (
        "rwkvctl.service active (running)"
    )
    assert facts.service_sentence("LoadState=not-found\n") == ""
    assert facts.service_sentence("") == ""


def test_workers_are_counted_by_home_and_their_shims_are_not(tmp_path: Path) -> None:
    commands = {
        "10": ["python", "-m", "rwkv_engine", "serve", "x.pth", "--socket", "/h/run/e1.sock"],
        "11": [
            "python",
            "-I",
            "-S",
            "/x/shim.py",
            "/h/runs/engines/e1/record.json",
            "--",
            "python",
            "-m",
            "rwkv_engine",
        ],
        "12": ["python", "-m", "rwkv_daemon.runner", "/h/runs/j1"],
        "13": ["python", "-m", "rwkv_daemon.runner", "/other/runs/j1"],
        "14": ["vi", "/h/rwkv_engine.txt"],
    }
    for pid, words in commands.items():
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
    (tmp_path / "15").mkdir()
    assert facts.census(command_lines(tmp_path), "/h") == (1, 1)
    assert facts.census(command_lines(tmp_path), "") == (1, 2)
    assert facts.census(command_lines(tmp_path / "nothing"), "/h") == (0, 0)


def test_where_a_setting_came_from_in_few_cells() -> None:
    assert facts.short("environment RWKVCTL_REAP") == "$RWKVCTL_REAP"
    assert facts.short("flag --home") == "--home"
    assert facts.short("/etc/rwkvctl/config.toml:3") == "/etc/rwkvctl/config.toml:3"
