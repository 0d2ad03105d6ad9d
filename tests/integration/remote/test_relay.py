"""A model behind an endpoint, asked over its socket by the runner's own client."""

from pathlib import Path
from typing import Any

from rwkvctl.protocol.engine import ScoreItem


async def test_samples_of_a_chat(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = lambda asked: kit.Do(f"It is {asked.prompt[8:-1]}.")
    async with kit.remote(kit.settings(server), socket_path) as running:
        found = await running.generate(kit.chat(1, n=2, temperature=0.7), kit.chat(2))
        stats = running.model.stats()
    assert {place: (one.text, one.stop, one.error) for place, one in found.items()} == {
        ("j1.1", 0): ("It is 1 + 1.", "stop_token", ""),
        ("j1.1", 1): ("It is 1 + 1.", "stop_token", ""),
        ("j1.2", 0): ("It is 2 + 1.", "stop_token", ""),
    }
    assert (found["j1.1", 0].usage.prompt, found["j1.1", 0].usage.generated) == (100, 10)
    assert len(server.asked) == 3
    assert [(job.job, job.judged, job.unjudged, job.waiting) for job in stats.jobs] == [("j1", 3, 0, 0)]
    assert not socket_path.exists()


async def test_scores(kit: Any, server: Any, socket_path: Path) -> None:
    server.behave = lambda _: kit.Do(" x")
    item = ScoreItem(id="a", context="The sky is", continuations=(" blue", " a bird"), group="j1")
    async with kit.remote(kit.settings(server, api="completions"), socket_path) as running:
        found = await running.score(item)
    assert [(round(score.logprob, 6), score.tokens, score.greedy) for score in found.scores] == [
        (-0.5, 1, False),
        (-0.7, 2, False),
    ]


async def test_probe(kit: Any, server: Any, socket_path: Path) -> None:
    async with kit.remote(kit.settings(server, api="completions"), socket_path) as running:
        features = await running.model.probe()
    assert features.prompt_logprobs
