"""What the console asks: a sample as it is generated, a job beside the last run, jobs by words, what is paused."""

import asyncio
import threading
from typing import Any

import pytest
from waiting import LIMIT_S

from rwkvctl.protocol.events import Event
from rwkvctl.protocol.replies import JobReply, JobsReply, NowReply, SoFarReply, StatusReply
from rwkvctl.protocol.requests import EventsRequest, JobRequest, JobsRequest, NowRequest, SoFarRequest, StatusRequest
from rwkvctl.tui.daemon.client import Link


@pytest.fixture(scope="module")
def node(module_node: Any) -> Any:
    """A node that stays as it is, whatever jobs there are."""
    return module_node().start()


def ask(node: Any, request: Any, expected: Any) -> Any:
    """A reply, as the console asks for it."""
    return asyncio.run(Link(node.socket).ask(request, expected))


def test_a_sample_is_seen_while_it_is_generated(node: Any, tools: Any) -> None:
    node.engines_do(answers=0)
    (job,) = node.dispatch(limit=20, settings={"temperature": "1.0", "k": "3"})
    tools.wait_for(lambda: ask(node, NowRequest(job=job), NowReply).count > 1, "two are written", node.log)
    going = [ask(node, NowRequest(job=job), NowReply) for _ in range(3)]
    attempt = f"/{job[1:]}.1."
    assert all(attempt in one.sample and one.stage == "answer" and one.max_tokens == 8 for one in going)
    assert all(one.prompt.endswith("=") and one.tokens <= 8 and one.place < one.count for one in going)
    assert any(one.text for one in going), "what there is of a text is shown"
    first = going[-1]
    later = ask(node, NowRequest(job=job, sample=first.sample, step=1), NowReply)
    assert (later.row, later.repeat) != (first.row, first.repeat)
    with pytest.raises(Exception, match="no job j99"):
        ask(node, NowRequest(job="j99"), NowReply)
    node.api.post("/v1/stop", {"jobs": [job]})
    node.engines_do()
    node.wait_for_state(job, "stopped")
    assert ask(node, NowRequest(job=job, sample="rubbish"), NowReply).note == f"{job} is stopped"


def test_a_job_stands_beside_the_last_run_on_the_rows_that_both_have(new_node: Any) -> None:
    node = new_node().start()
    (first,) = node.dispatch(limit=30)
    node.wait_for_state(first, "done")
    assert ask(node, SoFarRequest(job=first), SoFarReply).note.startswith("no other run has finished")
    (second,) = node.dispatch(limit=40, settings={"temperature": "2.0", "top_k": "0"})
    node.wait_for_state(second, "done")
    found = ask(node, SoFarRequest(job=second), SoFarReply)
    assert (found.other, found.model, found.rows, found.test) == (first, "builtin", 30, "mcnemar")
    assert found.differs == ("configuration",)
    right = [{s["row"]: s["value"] for s in node.samples(name)} for name in (first, second)]
    assert found.before == pytest.approx(sum(right[0].values()) / 30)
    assert found.value == pytest.approx(sum(right[1][row] for row in right[0]) / 30)
    assert found.difference.value == pytest.approx(found.value - found.before)


def test_jobs_are_found_by_states_and_words(new_node: Any) -> None:
    node = new_node().start()
    node.api.post("/v1/pause", {"queue": True})
    names = [node.dispatch(limit=n, only_datasets=[name])[0] for n in (1, 2) for name in ("demo_arith", "demo_choice")]
    for name in names:
        node.wait_for_state(name, "queued")
    node.api.post("/v1/hold", {"jobs": names[:1], "why": "100% odd_rows"})
    node.api.post("/v1/stop", {"jobs": names[1:2]})

    def listed(**asked: Any) -> list[str]:
        return [job.id for job in ask(node, JobsRequest(**asked), JobsReply).items]

    newest = names[::-1]
    assert listed() == newest
    assert listed(state="held,stopped") == [names[1], names[0]]
    assert listed(words="DEMO_choice") == [names[3], names[1]]
    assert listed(words="choice stopped") == []
    assert listed(words="100% odd_") == [names[0]]
    assert listed(words="%") == [names[0]]
    assert listed(state="queued", words="demo", limit=1) == [names[3]]
    assert listed(state="queued", words="demo", limit=1, before=int(names[3][1:])) == [names[2]]


def test_the_status_names_pauses_and_events_carry_priorities(node: Any) -> None:
    node.api.post("/v1/pause", {"queue": True, "why": "maintenance"})
    (job,) = node.dispatch(limit=3)
    status = ask(node, StatusRequest(), StatusReply)
    assert [(one.scope, one.why) for one in status.pauses] == [("queue", "maintenance")]
    heard: list[Event] = []
    ready = threading.Event()

    async def listen() -> None:
        async for event in Link(node.socket).events(EventsRequest(since=status.last_event)):
            ready.set()
            heard.append(event)
            if event.kind == "job.priority":
                return

    listener = threading.Thread(target=asyncio.run, args=(listen(),))
    listener.start()
    assert ready.wait(LIMIT_S)
    node.api.post("/v1/priority", {"jobs": [job], "priority": 7})
    listener.join(LIMIT_S)
    assert heard[-1].data["priority"] == 7
    assert heard[-1].data["id"] == job
    node.api.post("/v1/stop", {"jobs": [job]})
    node.api.post("/v1/pause", {"queue": True, "off": True})


def test_a_job_comes_with_all_that_it_asks(node: Any) -> None:
    (job,) = node.dispatch(limit=3, settings={"temperature": "0.5"})
    node.wait_for_state(job, "done")
    reply = ask(node, JobRequest(job=job), JobReply)
    [stage] = reply.configuration["stages"]
    assert stage["sampling"]["temperature"] == 0.5
    assert stage["name"] == "answer"
