"""A model behind an endpoint, asked over its socket by the runner's own client."""

import asyncio
import socket
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest
from reply_caches import FileCache, MemoryCache
from waiting import LIMIT_S

from rwkv_daemon.remote import answers, relay
from rwkv_daemon.remote.server_reply import TokenUsage
from rwkv_daemon.runner.engine_client import EngineAwayError, EngineBusyError, EngineClient, EngineRefusedError
from rwkv_daemon.workers.run_directory import EngineEndpoint
from rwkvctl.http.listeners import SocketInUseError
from rwkvctl.protocol.engine import ScoreItem
from rwkvctl.protocol.errors import ConfigError


async def test_samples_of_a_chat(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = lambda asked: kit.Do(f"It is {asked.prompt[8:-1]}.")
    priced = kit.settings(server, prompt_price=2.0, completion_price=10.0)
    async with kit.remote(priced, socket_path) as running:
        found = await running.generate(kit.chat(1, n=2, temperature=0.7), kit.chat(2))
        stats = running.model.stats()
    assert {place: (one.text, one.stop, one.error) for place, one in found.items()} == {
        ("j1.1", 0): ("It is 1 + 1.", "stop_token", ""),
        ("j1.1", 1): ("It is 1 + 1.", "stop_token", ""),
        ("j1.2", 0): ("It is 2 + 1.", "stop_token", ""),
    }
    assert (found["j1.1", 0].usage.prompt, found["j1.1", 0].usage.generated) == (100, 10)
    assert [(asked.route, asked.document["model"]) for asked in server.asked] == [
        ("/v1/chat/completions", "QwQ-32B")
    ] * 3
    assert [(job.job, job.judged, job.unjudged, job.waiting) for job in stats.jobs] == [("j1", 3, 0, 0)]
    assert stats.usage.cost == pytest.approx(3 * (100 * 2 + 10 * 10) / 1e6)


async def test_a_completion_gets_its_prompt_as_it_is(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = lambda _: kit.Do(" 2", finish="length")
    async with kit.remote(kit.settings(server, api="completions"), socket_path) as running:
        found = await running.one(kit.text(1))
    assert (found.text, found.stop) == (" 2", "length")
    assert [(asked.route, asked.prompt) for asked in server.asked] == [("/v1/completions", "Q: 1 + 1\nA:")]


async def test_a_thought_comes_before_the_answer(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = lambda _: kit.Do("2", message={"reasoning_content": "1 + 1 is 2."})
    async with kit.remote(kit.settings(server), socket_path) as running:
        assert (await running.one(kit.chat())).text == "<think>1 + 1 is 2.</think>2"


async def test_a_server_that_ignores_stops_is_cut_here(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = lambda _: kit.Do("It is 2.\nUser: And 2 + 2?")
    async with kit.remote(kit.settings(server), socket_path) as running:
        found = await running.one(kit.chat(stops=("\nUser:",)))
    assert server.asked[0].document["stop"] == ["\nUser:"]
    assert (found.text, found.stop) == ("It is 2.", "stop_suffix")


async def test_scores_of_continuations(kit: Any, server: Any, socket_path: Path) -> None:
    item = ScoreItem(id="a", context="The sky is", continuations=(" blue", " up", " a bird", ""), group="j1")
    async with kit.remote(kit.settings(server, api="completions"), socket_path) as running:
        found = await running.score(item)
        stats = running.model.stats()
    assert [(round(one.logprob, 6), one.tokens, one.greedy) for one in found.scores] == [
        (-0.5, 1, False),
        (-0.3, 1, True),
        (-0.7, 2, False),
        (0.0, 0, True),
    ]
    assert sorted(asked.prompt for asked in server.asked) == ["The sky is a bird", "The sky is blue", "The sky is up"]
    assert (stats.jobs[0].judged, found.usage.prompt) == (1, 300)


@pytest.mark.parametrize(
    ("settings", "item", "says"),
    [
        ({}, ScoreItem(id="a", context="x", continuations=("y",)), 'api = "completions"'),
        ({"api": "completions"}, ScoreItem(id="a", context_ids=(1,), continuations=("y",)), "token ids"),
        ({"api": "completions"}, ScoreItem(id="a", context="", continuations=("y z",)), "must not be empty"),
    ],
)
async def test_what_cannot_be_scored_is_an_error(
    kit: Any, server: Any, socket_path: Path, settings: Any, item: ScoreItem, says: str
) -> None:
    async with kit.remote(kit.settings(server, **settings), socket_path) as running:
        found = await running.score(item)
    assert (found.scores, says in found.error) == ((), True)


async def test_what_cannot_be_sent_is_an_error_and_costs_nothing(kit: Any, server: Any, socket_path: Path) -> None:
    async with kit.remote(kit.settings(server), socket_path) as running:
        found = await running.one(kit.text())
    assert (found.stop, found.text, "takes messages" in found.error) == ("error", "", True)
    assert server.asked == []


async def test_a_refused_prompt_is_an_error(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = lambda asked: kit.Do("the prompt is too long", 400) if " 3 +" in asked.prompt else kit.Do("2")
    async with kit.remote(kit.settings(server), socket_path) as running:
        found = await running.generate(*(kit.chat(number) for number in range(1, 5)))
        stats = running.model.stats()
    assert [one.error for place, one in sorted(found.items())] == [
        "", "", "qwq refused: HTTP 400: the prompt is too long", "",
    ]  # fmt: skip
    assert found["j1.3", 0].stop == "error"
    assert (stats.jobs[0].judged, stats.jobs[0].unjudged) == (3, 1)


async def test_what_fails_again_and_again_is_an_error(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = lambda asked: kit.Do("oops", 500) if "What is 3 +" in asked.prompt else kit.Do(delay_s=0.01)
    config = kit.settings(server, concurrency=2, max_tries=3)
    async with kit.remote(config, socket_path, speed=200.0) as running:
        found = await running.generate(*(kit.chat(number) for number in range(400)))
    assert [place for place, one in found.items() if one.error] == [("j1.3", 0)]
    assert "oops" in found["j1.3", 0].error
    assert found["j1.3", 0].text == ""


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>a portal</html>",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"text": "True"}]}',
        b'{"choices": [{"message": {"content": "True"}, "finish_reason": "abort"}]}',
        b'{"choices": [{"message": {"content": "' + b"x" * (1 << 20) + b'"}}]}',
        b"[" * 100_000,
    ],
)
async def test_what_is_no_completion_is_never_a_text(kit: Any, server: Any, socket_path: Path, body: bytes) -> None:
    server.behave = lambda asked: kit.Do(body=body) if asked.number == 0 else kit.Do("2")
    async with kit.remote(kit.settings(server, max_reply_bytes=1 << 20), socket_path) as running:
        found = await running.one(kit.chat())
        counts = running.model.stats().endpoints[0].counts
    assert (found.text, found.stop, len(server.asked), counts["failed"]) == ("2", "stop_token", 2, 1)


async def test_a_long_reply_is_whole(kit: Any, server: Any, socket_path: Path) -> None:
    long = "word " * 200_000
    server.behave = lambda _: kit.Do(long, usage=None)
    async with kit.remote(kit.settings(server), socket_path) as running:
        found = await running.one(kit.chat())
    assert (found.text == long, found.stop) == (True, "stop_token")
    assert found.usage.generated > 200_000


async def test_nothing_is_paid_twice_after_a_restart(kit: Any, server: Any, socket_path: Path, tmp_path: Path) -> None:
    config = kit.settings(server, api="completions")
    item = ScoreItem(id="a", context="The sky is", continuations=(" blue", " up"), group="j1")
    async with kit.remote(config, socket_path, cache=FileCache(tmp_path / "cache")) as running:
        before = await running.generate(kit.text(1), kit.text(2)), await running.score(item)
    async with kit.remote(config, socket_path, cache=FileCache(tmp_path / "cache")) as running:
        after = await running.generate(kit.text(1, job="j2"), kit.text(2, job="j2")), await running.score(item)
        assert running.model.stats().from_cache == 4
    assert len(server.asked) == 4
    assert [one.text for one in before[0].values()] == [one.text for one in after[0].values()]
    assert before[1].scores == after[1].scores


async def test_another_revision_is_asked_anew(kit: Any, server: Any, socket_path: Path) -> None:
    cache = MemoryCache()
    for revision in ("a", "b", "a"):
        async with kit.remote(kit.settings(server, revision=revision), socket_path, cache=cache) as running:
            await running.one(kit.chat())
    assert len(server.asked) == 2


async def test_a_question_of_two_runners_is_sent_once(kit: Any, server: Any, socket_path: Path) -> None:
    both: list[bool] = []
    server.behave = lambda _: kit.Do("2", until=lambda: both)
    async with kit.remote(kit.settings(server), socket_path) as running, asyncio.TaskGroup() as group:
        work = [group.create_task(running.one(kit.chat(1, job=job))) for job in ("j1", "j2")]
        await kit.until(lambda: len(running.model.stats().jobs) == 2 and server.asked)
        both.append(True)
    assert [one.result().text for one in work] == ["2", "2"]
    assert [one.result().id for one in work] == ["j1.1", "j2.1"]
    assert len(server.asked) == 1


async def test_a_client_that_hangs_up_takes_back_what_waits(kit: Any, server: Any, socket_path: Path) -> None:
    gate: list[bool] = []
    server.behave = lambda _: kit.Do("2", until=lambda: gate)
    cache = MemoryCache()
    async with kit.remote(kit.settings(server, concurrency=2), socket_path, cache=cache) as running:
        work = asyncio.ensure_future(running.generate(*(kit.chat(number) for number in range(10))))
        await kit.until(lambda: len(server.asked) == 2)
        work.cancel()
        await kit.until(lambda: running.model.stats().queue == 0)
        gate.append(True)
        await kit.until(lambda: len(cache.replies) == 2)
        assert [job.waiting for job in running.model.stats().jobs] == [0]
        assert len(await running.generate(*(kit.chat(number) for number in range(10)))) == 10
    assert len(server.asked) == 10


async def test_too_much_at_once_is_sent_back(
    kit: Any, server: Any, socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "MOST_WAITING", 6)
    gate: list[bool] = []
    server.behave = lambda _: kit.Do("2", until=lambda: gate)
    async with kit.remote(kit.settings(server), socket_path) as running, asyncio.TaskGroup() as group:
        with pytest.raises(EngineRefusedError, match="6 questions at most"):
            await running.generate(kit.chat(1, n=4), kit.chat(2, n=3))
        first = group.create_task(running.generate(kit.chat(1, n=4)))
        await kit.until(lambda: len(server.asked) == 4)
        with pytest.raises(EngineBusyError) as busy:
            await running.generate(kit.chat(2, n=3))
        assert busy.value.retry_s == 1.0
        other = group.create_task(running.generate(kit.chat(1, job="j2", n=3)))
        await kit.until(lambda: len(running.model.stats().jobs) == 2)
        with pytest.raises(EngineBusyError):
            await running.generate(kit.chat(2, job="j2"))
        gate.append(True)
        assert len(await first | await other) == 7
        assert len(await running.generate(kit.chat(2, n=3))) == 3


@pytest.mark.parametrize("body", [b"", b"\n", b"{", b'{"id": 7}', b'{"id": "a", "n": 0}', b'{"id": "a"}\nx', b"\xff"])
async def test_what_is_no_item_is_refused(kit: Any, server: Any, socket_path: Path, body: bytes) -> None:
    transport = httpx.AsyncHTTPTransport(uds=str(socket_path))
    async with (
        kit.remote(kit.settings(server), socket_path),
        httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=LIMIT_S) as client,
    ):
        assert (await client.post("/v1/generate", content=body)).status_code == 400
        assert (await client.get("/v1/nothing")).status_code == 404
    assert server.asked == []


async def test_the_socket_is_private_and_goes_with_the_service(kit: Any, server: Any, socket_path: Path) -> None:
    async with kit.remote(kit.settings(server), socket_path) as running:
        assert stat.S_IMODE(socket_path.stat().st_mode) == 0o600
        with pytest.raises(SocketInUseError):
            await kit.RemoteModel(kit.settings(server), MemoryCache(), socket_path).run()
        running.model.stop()
        assert not socket_path.exists()


async def test_a_stale_socket_is_replaced(kit: Any, server: Any, socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(socket_path))
    async with kit.remote(kit.settings(server), socket_path) as running:
        assert (await running.one(kit.chat())).text == "True"


async def test_a_stop_gives_back_what_waits_and_keeps_what_is_in_flight(
    kit: Any, server: Any, socket_path: Path
) -> None:
    gate: list[bool] = []
    server.behave = lambda _: kit.Do("2", until=lambda: gate)
    cache = MemoryCache()
    config = kit.settings(server, concurrency=2)
    async with kit.remote(config, socket_path, cache=cache, grace_s=0.0) as running, asyncio.TaskGroup() as group:
        work = group.create_task(running.generate(*(kit.chat(number) for number in range(6))))
        await kit.until(lambda: len(server.asked) == 2)
        running.model.stop()
        with pytest.raises(EngineAwayError):
            await running.one(kit.chat(9))
        gate.append(True)
        found = await work
    assert sorted(one.error for one in found.values()) == ["", "", "gone", "gone", "gone", "gone"]
    assert len(cache.replies) == len(server.asked) == 2
    assert running.model.stats().jobs[0].unjudged == 0


async def test_a_closed_job_gets_back_what_waits_and_loses_nothing(kit: Any, server: Any, socket_path: Path) -> None:
    gate: list[bool] = []
    server.behave = lambda _: kit.Do("2", until=lambda: gate)
    questions = [kit.chat(number) for number in range(6)]
    async with kit.remote(kit.settings(server, concurrency=2), socket_path) as running, asyncio.TaskGroup() as group:
        work = group.create_task(running.generate(*questions))
        other = group.create_task(running.one(kit.chat(9, job="j2")))
        await kit.until(lambda: len(server.asked) == 2 and len(running.model.stats().jobs) == 2)
        running.model.close_job("j1")
        assert {one.error for one in (await work).values()} == {"gone"}
        gate.append(True)
        assert (await other).text == "2"
        assert {one.text for one in (await running.generate(*questions)).values()} == {"2"}
        (job,) = [job for job in running.model.stats().jobs if job.job == "j1"]
    assert (job.waiting, job.judged, job.unjudged) == (0, 6, 0)
    assert len(server.asked) == 7


async def test_what_is_in_flight_is_waited_for_by_the_service_that_follows(
    kit: Any, server: Any, socket_path: Path, tmp_path: Path
) -> None:
    gate: list[bool] = []
    server.behave = lambda _: kit.Do("2", until=lambda: gate)
    cache = MemoryCache()
    async with kit.remote(kit.settings(server), socket_path, cache=cache) as first, asyncio.TaskGroup() as group:
        early = group.create_task(first.one(kit.chat()))
        await kit.until(lambda: server.asked)
        early.cancel()
        first.model.stop()
        async with kit.remote(kit.settings(server, budget=5.0), tmp_path / "second.sock", cache=cache) as second:
            second.model.follow([first.model])
            late = group.create_task(second.one(kit.chat(job="j2")))
            await kit.until(lambda: second.model.exchange.flights)
            gate.append(True)
            assert (await late).text == "2"
    assert len(server.asked) == 1


async def test_a_cancelled_service_leaves_nothing(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = lambda _: kit.Do(hang=True)
    async with kit.remote(kit.settings(server), socket_path, grace_s=0.1) as running, asyncio.TaskGroup() as group:
        work = group.create_task(running.one(kit.chat()))
        await kit.until(lambda: server.asked)
        running.running.cancel()
        assert (await work).error == "gone"
    assert not socket_path.exists()


async def test_a_store_that_is_away_is_no_samples_fault(
    kit: Any, server: Any, socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "STORE_AGAIN_S", 0.01)

    class Away(MemoryCache):
        looks = 0

        async def get(self, key: str) -> Any:
            self.looks += 1
            if self.looks < 4:
                raise OSError("no disk")
            return await super().get(key)

    async with kit.remote(kit.settings(server), socket_path, cache=Away()) as running:
        assert (await running.one(kit.chat())).text == "True"
    assert len(server.asked) == 1


async def test_a_mistake_of_ours_is_an_error_of_its_sample(
    kit: Any, server: Any, socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(answers, "finished", wrong)
    async with kit.remote(kit.settings(server), socket_path) as running:
        assert "ZeroDivisionError in the daemon" in (await running.one(kit.chat())).error


async def test_jobs_have_priorities_budgets_and_costs(kit: Any, server: Any, socket_path: Path) -> None:
    config = kit.settings(server, concurrency=1, job_budget_tokens=1000)
    async with kit.remote(config, socket_path) as running, asyncio.TaskGroup() as group:
        running.model.open_job("j2", priority=5, spent=TokenUsage(900, 90, 0.0))
        dear = group.create_task(running.one(kit.chat(1, job="j2")))
        await kit.until(lambda: "budget of j2" in running.model.parked_for("j2"))
        assert (running.model.parked, running.model.parked_for("j1")) == ("", "")
        assert (await running.one(kit.chat(2, job="j1"))).text == "True"
        (job,) = [job for job in running.model.stats().jobs if job.job == "j2"]
        assert (job.waiting, job.usage.tokens, "budget of j2" in job.parked) == (1, 990, True)
        dear.cancel()
        await kit.until(lambda: running.model.stats().queue == 0)
        running.model.close_job("j2")
        assert running.model.parked_for("j2") == ""
        assert [job.job for job in running.model.stats().jobs] == ["j1"]


async def test_a_pause_holds_everything(kit: Any, server: Any, socket_path: Path) -> None:
    async with kit.remote(kit.settings(server), socket_path) as running, asyncio.TaskGroup() as group:
        running.model.pause("paused by alice")
        assert running.model.parked == "paused by alice"
        work = group.create_task(running.one(kit.chat()))
        await kit.until(lambda: running.model.stats().queue == 1)
        assert server.asked == []
        running.model.pause("")
        assert (await work).text == "True"
        assert running.model.parked == ""


async def test_a_model_is_of_its_settings_and_keys(kit: Any, server: Any, socket_path: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("one-key-123\n")
    keys.chmod(0o600)
    config = kit.settings(server, keys_file=str(keys))
    model = kit.RemoteModel(config, MemoryCache(), socket_path)
    assert model.is_of(kit.settings(server, keys_file=str(keys)))
    assert not model.is_of(kit.settings(server, keys_file=str(keys), concurrency=3))
    keys.write_text("one-key-123\ntwo-key-123\n")
    assert not model.is_of(config)
    keys.chmod(0o644)
    with pytest.raises(ConfigError, match="qwq's keys"):
        kit.RemoteModel(config, MemoryCache(), socket_path)


async def test_a_runner_goes_to_the_next_service_while_the_last_one_waits_for_its_replies(
    kit: Any, server: Any, socket_path: Path
) -> None:
    gate: list[bool] = []
    server.behave = lambda asked: kit.Do("2", until=lambda: gate or "What is 1 " not in asked.prompt)
    config = kit.settings(server)
    async with kit.remote(config, socket_path, grace_s=LIMIT_S) as before, asyncio.TaskGroup() as group:
        client = EngineClient(EngineEndpoint(engine="qwq", socket=str(socket_path), relay=True))
        assert [one.error for one in await before.ask("/v1/generate", [kit.chat(7)], {("j1.7", 0)}, client)] == [""]
        waits = group.create_task(before.ask("/v1/generate", [kit.chat(1)], {("j1.1", 0)}, client))
        await kit.until(lambda: len(server.asked) == 2)
        before.model.stop()
        async with kit.remote(config, socket_path) as after:
            (found,) = await kit.patiently(lambda: after.ask("/v1/generate", [kit.chat(2)], {("j1.2", 0)}, client))
            assert found.error == ""
            gate.append(True)
            assert [one.error for one in await waits] == [""]
        client.close()
