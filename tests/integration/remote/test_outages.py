"""Keys, limits, outages and budgets of a model behind an endpoint: jobs wait, and nothing is lost or paid twice."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

KEYS = ("sk-first-key-0123456789abcd", "sk-second-key-0123456789efgh", "sk-third-key-0123456789ijkl")


@pytest.fixture
def keys_file(tmp_path: Path) -> str:
    path = tmp_path / "keys"
    path.write_text("\n".join(KEYS) + "\n")
    path.chmod(0o600)
    return str(path)


def questions(kit: Any, count: int, **more: Any) -> list[Any]:
    return [kit.chat(number, **more) for number in range(count)]


async def test_three_keys_share_the_load(kit: Any, server: Any, socket_path: Path, keys_file: str) -> None:
    server.behave = lambda _: kit.Do(delay_s=0.02, until=lambda: server.most == 6)
    async with kit.remote(kit.settings(server, keys_file=keys_file, concurrency=2), socket_path) as running:
        found = await running.generate(*questions(kit, 60))
    assert {one.error for one in found.values()} == {""}
    assert min(sum(asked.key == key for asked in server.asked) for key in KEYS) >= 15
    assert len(server.asked) == 60


async def test_one_bad_key_of_three_is_left_out(kit: Any, server: Any, socket_path: Path, keys_file: str) -> None:
    server.behave = lambda asked: (
        kit.Do(f"Incorrect API key provided: {asked.key}", 401) if asked.key == KEYS[1] else kit.Do(delay_s=0.02)
    )
    async with kit.remote(kit.settings(server, keys_file=keys_file, concurrency=2), socket_path) as running:
        found = await running.generate(*questions(kit, 30))
        stats = running.model.stats()
        assert running.model.parked == ""
    assert {one.error for one in found.values()} == {""}
    assert [key.state.startswith("out: the key is not accepted") for key in stats.endpoints[0].keys] == [0, 1, 0]
    assert {event.kind for event in running.events} == {"key-out"}
    assert not any(key in f"{stats}{running.events}{running.model.exchange}" for key in KEYS)


@pytest.mark.parametrize(("status", "counted"), [(429, "429"), (500, "5xx"), (503, "5xx")])
async def test_a_burst_of_failures_loses_nothing(
    kit: Any, server: Any, socket_path: Path, status: int, counted: str
) -> None:
    server.behave = lambda asked: kit.Do("later", status) if asked.number < 5 else kit.Do("2")
    async with kit.remote(kit.settings(server, concurrency=4), socket_path, speed=100.0) as running:
        found = await running.generate(*questions(kit, 20))
        counts = running.model.stats().endpoints[0].counts
    assert {(one.text, one.error) for one in found.values()} == {("2", "")}
    assert (counts[counted], counts["ok"]) == (5, 20)


async def test_an_outage_parks_and_its_end_resumes(kit: Any, socket_path: Path) -> None:
    fake = kit.FakeJudge()
    async with kit.serving(fake):
        config = kit.settings(fake)
    async with kit.remote(config, socket_path, speed=40.0) as running, asyncio.TaskGroup() as group:
        work = group.create_task(running.generate(*questions(kit, 20)))
        await kit.until(lambda: running.model.parked.startswith("outage"))
        async with kit.serving(fake):
            found = await work
        assert running.model.parked == ""
    assert {one.error for one in found.values()} == {""}
    assert [event.kind for event in running.events] == ["outage", "recovered"]


async def test_an_outage_ends_also_when_nobody_waits(kit: Any, socket_path: Path) -> None:
    """A job that is parked has no runner, so nothing would be asked any more."""
    fake = kit.FakeJudge()
    async with kit.serving(fake):
        config = kit.settings(fake)
    async with kit.remote(config, socket_path, speed=100.0) as running:
        work = asyncio.ensure_future(running.generate(*questions(kit, 5)))
        await kit.until(lambda: running.model.parked.startswith("outage"))
        work.cancel()
        await kit.until(lambda: running.model.stats().queue <= 1)
        async with kit.serving(fake):
            await kit.until(lambda: not running.model.parked)
    assert fake.asked[0].document["max_tokens"] == 1
    assert running.model.exchange.budget.of("probe").tokens > 0


async def test_without_any_key_jobs_wait_until_somebody_has_looked(kit: Any, server: Any, socket_path: Path) -> None:
    accepted: list[bool] = []
    server.behave = lambda _: kit.Do("2") if accepted else kit.Do("no", 401)
    async with kit.remote(kit.settings(server), socket_path) as running, asyncio.TaskGroup() as group:
        work = group.create_task(running.generate(*questions(kit, 5)))
        await kit.until(lambda: "the key is not accepted" in running.model.parked)
        accepted.append(True)
        running.model.revive()
        assert {one.text for one in (await work).values()} == {"2"}


async def test_a_budget_parks_and_stays_said_while_nobody_waits(kit: Any, server: Any, socket_path: Path) -> None:
    config = kit.settings(server, prompt_price=1000.0, completion_price=1000.0, concurrency=4, budget=1.0)
    async with kit.remote(config, socket_path) as running:
        work = asyncio.ensure_future(running.generate(*questions(kit, 60, max_tokens=100)))
        await kit.until(lambda: "qwq's budget of 1" in running.model.parked)
        stats = running.model.stats()
        assert 0.5 < stats.usage.cost <= 1.0
        assert len(server.asked) == round(stats.usage.cost / 0.11)
        work.cancel()
        await kit.until(lambda: running.model.stats().queue == 0)
        running.model.close_job("j1")
        assert "qwq's budget of 1" in running.model.parked
    assert [event.kind for event in running.events] == ["budget"]


async def test_a_raised_budget_goes_on_where_it_was(kit: Any, server: Any, socket_path: Path) -> None:
    prices = {"prompt_price": 1000.0, "completion_price": 1000.0, "concurrency": 4}
    cache = kit.MemoryCache()
    async with kit.remote(kit.settings(server, budget=1.0, **prices), socket_path, cache=cache) as running:
        work = asyncio.ensure_future(running.generate(*questions(kit, 20, max_tokens=100)))
        await kit.until(lambda: running.model.parked)
        work.cancel()
    before = len(server.asked)
    async with kit.remote(kit.settings(server, budget=9.0, **prices), socket_path, cache=cache) as running:
        found = await running.generate(*questions(kit, 20, max_tokens=100))
    assert {one.error for one in found.values()} == {""}
    assert 0 < before < len(server.asked) == 20


async def test_fields_that_a_server_does_not_know_are_left_out(kit: Any, server: Any, socket_path: Path) -> None:
    def behave(asked: Any) -> Any:
        if "top_k" in asked.document:
            return kit.Do("Unrecognized request argument supplied: top_k", 400)
        if len(asked.document.get("stop", ())) > 4:
            return kit.Do("Invalid 'stop': array too long", 400)
        return kit.Do("2 f")

    server.behave = behave
    asked = [kit.chat(number, top_k=7, temperature=0.5, stops=tuple("abcdef")) for number in range(3)]
    async with kit.remote(kit.settings(server, concurrency=1), socket_path) as running:
        found = await running.generate(*asked)
        sent_as = running.model.sent_as(asked[0].sampling, asked[0].stops)
    assert {(one.text, one.stop) for one in found.values()} == {("2 ", "stop_suffix")}
    assert len(server.asked) == 5
    assert server.asked[-1].document["stop"] == list("abcd")
    assert server.asked[-1].document["temperature"] == 0.5
    assert sent_as == {
        "api": "chat", "length_field": "max_tokens", "seed_bits": 31, "most_stops": 4, "not_sent": {},
        "refused": ["top_k"],
    }  # fmt: skip
    assert [event.kind for event in running.events] == ["manner"]


async def test_a_value_that_a_server_refuses_is_an_error_of_that_sample(
    kit: Any, server: Any, socket_path: Path
) -> None:
    server.behave = lambda asked: (
        kit.Do("temperature must be at most 2", 400) if asked.document.get("temperature", 0) > 2 else kit.Do("2")
    )
    async with kit.remote(kit.settings(server), socket_path) as running:
        good = await running.one(kit.chat(1, temperature=1.0))
        bad = await running.one(kit.chat(1, temperature=3.0))
        assert (await running.one(kit.chat(2, temperature=1.5))).text == "2"
    assert (good.text, bad.text, "at most 2" in bad.error) == ("2", "", True)
    assert server.asked[-1].document["temperature"] == 1.5


async def test_a_server_that_repeats_a_key_shows_it_to_nobody(
    kit: Any, server: Any, socket_path: Path, keys_file: str
) -> None:
    server.behave = lambda asked: kit.Do(
        body=json.dumps({"model": asked.key, "choices": [{"message": {"content": asked.key}}]}).encode()
    )
    async with kit.remote(kit.settings(server, keys_file=keys_file), socket_path) as running:
        features = await running.model.probe()
        found = await running.one(kit.chat())
    assert server.asked[0].key
    for asked in server.asked:
        assert asked.key not in f"{features} {found}"


async def test_replies_that_cannot_be_used_count_against_the_budget(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = lambda asked: kit.Do("2", finish="content_filter" if 0 < asked.number < 4 else "stop")
    cache = kit.MemoryCache()
    async with kit.remote(kit.settings(server, concurrency=1, prompt_price=1e4), socket_path, cache=cache) as running:
        found = await running.generate(*questions(kit, 5))
        assert sorted(bool(one.error) for one in found.values()) == [False, False, True, True, True]
        stats = running.model.stats()
    assert (stats.usage.tokens, stats.usage.cost) == (5 * 110, pytest.approx(5.0))
    assert sum(reply.usage.tokens for reply in cache.replies.values()) == 5 * 110  # known after a restart, too
