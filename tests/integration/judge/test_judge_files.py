"""Key files and the cache file, on a real disk; and the daemon's cost without a judge."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_judge import in_thread
from reply_caches import FileCache, MemoryCache
from waiting import LIMIT_S

from rwkv_daemon.judge.judge_service import JudgeService
from rwkv_daemon.remote.http_client import CONNECTIONS
from rwkv_daemon.remote.key_file import Scrubber, keys_of, read
from rwkv_daemon.remote.server_reply import ServerReply, TokenUsage
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings.judge import EndpointConfig, JudgeConfig, checked
from rwkvctl.settings.secret import Secret

KEY = "sk-abcdefghijklmnop1234"


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_keys_stand_one_a_line(tmp_path: Path) -> None:
    path = write(tmp_path / "keys", f"# ours\n\n  {KEY}  \r\nother-key\n{KEY}\n")
    endpoint = EndpointConfig(base_url="https://x.example", keys_file=str(path))
    assert [key.reveal() for key in keys_of(endpoint, "the judge")] == [KEY, "other-key"]
    assert [key.reveal() for key in keys_of(EndpointConfig(base_url="https://x.example"), "the judge")] == [""]


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602, 0o666])
def test_keys_that_everybody_can_read_are_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match="chmod 600") as caught:
        read(write(tmp_path / "keys", KEY, mode), "the judge")
    assert KEY not in str(caught.value)


def test_keys_that_the_group_can_read_are_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert len(read(write(tmp_path / "keys", KEY, 0o640), "the judge")) == 1
    assert "chmod 600" in caplog.text
    assert KEY not in caplog.text


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "no key"), ("# nothing\n", "no key"), (f"{KEY}\ntwo words\n", ":2 is not a key"), ("x" * 70_000, "too long")],
)
def test_files_that_hold_no_keys(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(write(tmp_path / "keys", text), "the judge")
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "missing", "the judge")


def test_a_service_with_bad_files_is_not_made(tmp_path: Path) -> None:
    for settings in ({"keys_file": str(tmp_path / "no")}, {"ca_file": str(tmp_path / "no")}, {"proxy": "nonsense://"}):
        endpoint = EndpointConfig(base_url="https://x.example", **settings)
        with pytest.raises(ConfigError):
            JudgeService(checked(JudgeConfig(model="m", endpoints=(endpoint,)), "test"), MemoryCache())


def test_known_keys_are_taken_out_of_any_text() -> None:
    scrubber = Scrubber()
    scrubber.add([Secret(KEY), Secret("")])
    assert scrubber.clean(f"bad key {KEY}!") == "bad key …1234!"


async def test_the_cache_file_survives_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    reply = ServerReply("Tr\nue \u2028", "m", cut=True, usage=TokenUsage(3, 4, 0.5), latency_s=0.25)
    await FileCache(path).put("a", reply, "j1")
    with path.open("ab") as file:
        file.write(b'{"key": "b", "text"')
    again = FileCache(path)
    assert await again.get("a") == reply
    assert await again.get("b") is None
    await again.put("b", reply, "j1")
    assert set(FileCache(path).replies) == {"a", "b"}


def test_httpx_is_not_imported_before_there_is_a_judge() -> None:
    code = (
        "import sys, rwkv_daemon.judge.judge_service, rwkv_daemon.judge.calibration; sys.exit('httpx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_fake_judge_runs_in_a_thread_for_other_tests(kit: Any) -> None:
    fake = kit.FakeJudge(behave=lambda asked: kit.Do(asked.document["model"]))
    with in_thread(fake):
        answer = httpx.post(f"{fake.url}/chat/completions", json={"model": "m", "messages": []}, timeout=LIMIT_S)
        assert answer.json()["choices"][0]["message"]["content"] == "m"


async def test_many_at_once_share_a_client_by_fours(kit: Any, judge: Any) -> None:
    """httpx looks at all connections of a client for each request: one for all 64 took three times the processor."""
    judge.behave = lambda asked: kit.Do(until=lambda: asked.number >= 64 or judge.most == 64)
    async with kit.judging(kit.endpoint(judge, concurrency=64)) as running:
        outcomes = await running.judge(200)
        (clients,) = running.service.exchange.sender.transport.clients.values()
    assert sum(outcome.status == "judged" for outcome in outcomes) == 200
    assert len(clients) == 64 // CONNECTIONS
