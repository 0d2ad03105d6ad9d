"""What a probe finds out about servers that honour, ignore and refuse."""

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rwkv_daemon.remote import probe
from rwkv_daemon.remote.probe import ProbeError
from rwkvctl.protocol.engine import Sampling, Stops

WORDS = ("seven,", "eight,", "nine,", "ten,", "eleven,")


def model(kit: Any, *, stop: bool = True, n: bool = True, seed: bool = True, **more: Any) -> Any:
    """A server's behaviour: a list of numbers at temperature 0, else words by the seed, or by chance."""
    chance = random.Random(1)

    def behave(asked: Any) -> Any:
        document = asked.document
        dice = random.Random(document.get("seed")) if seed else chance
        text = " ".join(WORDS if not document.get("temperature") else dice.choices(WORDS, k=6))
        for end in document.get("stop", ()) if stop else ():
            text = text.partition(end)[0]
        if not n:
            document.pop("n", None)
        return kit.Do(text, **more)

    return behave


async def probed(kit: Any, server: Any, socket_path: Path, **settings: Any) -> Any:
    async with kit.remote(kit.settings(server, **settings), socket_path) as running:
        found = await running.model.probe()
        assert await running.model.probe() is found is running.model.features
        assert running.model.exchange.budget.of("probe") == running.model.stats().usage
        assert running.model.stats().jobs == ()
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found
    assert all(asked.document["max_tokens"] <= 16 for asked in server.asked)
    return found


async def test_a_server_that_honours_everything(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = model(kit)
    found = await probed(kit, server, socket_path, api="completions")
    assert (found.stop, found.n, found.seed, found.usage, found.refused) == ("yes", "yes", "yes", True, ())
    assert (found.prompt_logprobs, found.no_logprobs, found.model) == (True, "", "fake-judge-1")
    assert len(server.asked) == 7


async def test_a_server_that_ignores_everything(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = model(kit, stop=False, n=False, seed=False, usage=None, echoes=False)
    found = await probed(kit, server, socket_path, api="completions")
    assert (found.stop, found.n, found.seed, found.usage) == ("no", "no", "no", False)
    assert (found.prompt_logprobs, "does not echo" in found.no_logprobs) == (False, True)


async def test_a_chat_server_gives_no_scores(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = model(kit)
    found = await probed(kit, server, socket_path)
    assert (found.prompt_logprobs, "chat server" in found.no_logprobs) == (False, True)
    assert {asked.route for asked in server.asked} == {"/v1/chat/completions"}


async def test_a_server_that_says_the_same_for_every_seed_tells_nothing(
    kit: Any, server: Any, socket_path: Path
) -> None:
    found = await probed(kit, server, socket_path)
    assert found.seed == "unknown"


@pytest.mark.parametrize("named", [True, False])
async def test_what_a_server_refuses_is_found_out_one_by_one(
    kit: Any, server: Any, socket_path: Path, *, named: bool
) -> None:
    answer = model(kit)

    def behave(asked: Any) -> Any:
        refused = [name for name in ("top_k", "n", "seed", "presence_penalty") if name in asked.document]
        return kit.Do(f"unknown: {refused}" if named else "bad request", 400) if refused else answer(asked)

    server.behave = behave
    async with kit.remote(kit.settings(server), socket_path) as running:
        found = await running.model.probe()
        sample = await running.one(kit.chat(1, top_k=3, presence=0.5, frequency=0.5))
    assert (found.n, found.seed, found.stop) == ("refused", "refused", "yes")
    assert found.refused == ("n", "presence_penalty", "seed", "top_k")
    assert sample.error == ""
    assert "frequency_penalty" in server.asked[-1].document


async def test_a_server_that_is_tried_out_again_is_asked_with_every_field(
    kit: Any, server: Any, socket_path: Path
) -> None:
    answer = model(kit)
    server.behave = lambda asked: kit.Do("unknown: seed", 400) if "seed" in asked.document else answer(asked)
    async with kit.remote(kit.settings(server), socket_path) as running:
        before = await running.model.probe()
        server.behave = answer  # it was updated
        running.model.recall(None)
        after = await running.model.probe()
    assert ("seed" in before.refused, "seed" in after.refused) == (True, False)
    assert after.seed != "refused"


async def test_a_server_of_thinkers_wants_other_fields(kit: Any, server: Any, socket_path: Path) -> None:
    def behave(asked: Any) -> Any:
        if "max_tokens" in asked.document:
            return kit.Do("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", 400)
        if "temperature" in asked.document:
            return kit.Do("Unsupported value: 'temperature' does not support 0.", 400)
        return kit.Do("", message={"reasoning_content": "Okay, so the user"})

    server.behave = behave
    async with kit.remote(kit.settings(server), socket_path) as running:
        found = await running.model.probe()
    assert (found.length_field, found.refused) == ("max_completion_tokens", ("temperature",))
    assert found.stop == "no"


@pytest.mark.parametrize(
    ("status", "text", "says"),
    [
        (401, "no", "the key is not accepted"),
        (404, "no model", "no such route or model"),
        (500, "oops", "HTTP 500: oops"),
        (400, "never", "refused: HTTP 400: never"),
    ],
)
async def test_a_server_that_cannot_be_probed_is_said(
    kit: Any, server: Any, socket_path: Path, status: int, text: str, says: str
) -> None:
    server.behave = lambda _: kit.Do(text, status)
    async with kit.remote(kit.settings(server), socket_path, speed=100.0) as running:
        with pytest.raises(ProbeError, match=says):
            await running.model.probe()
        assert running.model.features is None
        server.behave = model(kit)
        running.model.revive()
        assert (await running.model.probe()).stop == "yes"


async def test_a_probe_says_that_the_model_is_paused_and_that_the_budget_is_used_up(
    kit: Any, server: Any, socket_path: Path
) -> None:
    async with kit.remote(kit.settings(server, budget_tokens=10), socket_path) as running:
        with pytest.raises(ProbeError, match="budget of 10 tokens"):
            await running.model.probe()
        running.model.pause("paused by alice")
        with pytest.raises(ProbeError, match="paused by alice"):
            await running.model.probe()
    assert server.asked == []


async def test_a_probe_does_not_wait_for_a_server_that_hangs(
    kit: Any, server: Any, socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "LONGEST_S", 1.0)
    server.behave = lambda _: kit.Do(hang=True)
    async with kit.remote(kit.settings(server), socket_path, grace_s=0.1) as running:
        with pytest.raises(ProbeError, match="no reply within 1 s"):
            await running.model.probe()


async def test_how_many_stop_strings_a_server_takes_is_known_before_the_first_job(
    kit: Any, server: Any, socket_path: Path
) -> None:
    plain = model(kit)

    def behave(asked: Any) -> Any:
        if len(asked.document.get("stop", ())) > 4:
            return kit.Do("Invalid 'stop': array too long. Expected at most 4.", 400)
        return plain(asked)

    server.behave = behave
    async with kit.remote(kit.settings(server), socket_path) as running:
        found = await running.model.probe()
        assert (found.stop, found.refused) == ("yes", ())
        assert running.model.sent_as(Sampling(), Stops())["most_stops"] == 4
