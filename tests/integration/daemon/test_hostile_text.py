"""Texts that nobody well-meaning writes, as questions, completions and the judge's verdicts: through engine, runner,
store, judge, CLI, exports and the programs on the store, and equal at the end."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import fake_judge
import pytest
from hostile import HOSTILE_TEXTS

TEXTS = [text for _, text in HOSTILE_TEXTS if text.strip()]
WRITTEN = [text.encode(errors="replace").decode() for text in TEXTS]
"""As an engine writes them: no half of a character comes out of bytes."""

OWN = """
import json
from dataclasses import replace

from rwkv_data.benchmark import by_name
from rwkv_data.benchmarks.demo_arith import BENCHMARK as SUMS
from rwkv_data.graders.judged import judged
from rwkv_data.graders.text import EXACT
from rwkv_data.judges import rule

TEXTS = json.loads({texts!r})
PLAIN = SUMS.default_kind
GRADER = judged(EXACT, rule("rwkv-skills-v1"))


def generate_rows():
    return [
        {{"question": f"case {{number}}: {{text}} =", "answer": f"none {{number}} {{text}}"}}
        for number, text in enumerate(TEXTS)
    ]


BENCHMARK = replace(
    SUMS, name="hostile_rows", rows=len(TEXTS), generate_rows=generate_rows, examples=(),
    kinds=by_name([replace(PLAIN, name="free_response_judge", grader=GRADER, repeats=1)]),
)
"""


@pytest.fixture
def judge() -> Iterator[Any]:
    """Says a hostile text before each verdict: of the case that it is asked about."""

    def behave(asked: Any) -> Any:
        case = re.search(r"case (\d+):", asked.prompt)
        return fake_judge.Do(f"{TEXTS[int(case[1])][:400]} True" if case else "True")

    with fake_judge.in_thread(fake_judge.FakeJudge(behave)) as fake:
        yield fake


@pytest.fixture
def hostile_node(new_node: Callable[..., Any], judge: Any, store_at: Path | str, tmp_path: Path) -> Any:
    """A node whose rows, completions and verdicts are hostile, on each database."""
    folder = tmp_path / "config" / "rwkvctl" / "benchmarks"
    folder.mkdir(parents=True)
    (folder / "hostile_rows.py").write_text(OWN.format(texts=json.dumps(WRITTEN)))
    node = new_node(**({} if isinstance(store_at, Path) else {"store": store_at}))
    node.settings |= {
        "XDG_CONFIG_HOME": str(tmp_path / "config"), "JUDGE_MODEL": "fake-judge-1", "JUDGE_BASE_URL": judge.url,
        "JUDGE_API_KEY": "k" * 20,
    }  # fmt: skip
    node.engines_do(texts={f"case {number}:": text for number, text in enumerate(WRITTEN)})
    return node.start()


def texts(node: Any, name: str) -> list[dict[str, Any]]:
    """What is stored of every sample, in order of the rows, as far as it is text."""
    return [
        {
            "prompt": sample["stages"][0]["prompt"],
            "completion": sample["stages"][0]["completion"],
            "extracted": sample["extracted"],
            "expected": sample["expected"],
            "detail": sample["detail"],
            "value": sample["value"],
        }
        for sample in sorted(node.samples(name), key=lambda sample: sample["row"])
    ]


class Page(HTMLParser):
    """A page as a browser reads it: how often each element begins and ends, and how many attributes are scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.handlers = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.handlers += sum(name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        self.ends[tag] += 1


def with_text(node: Any, name: str, text: str) -> list[dict[str, Any]]:
    """The samples of a job that hold a text, asked for page by page: a search has its time, and says where it is."""
    found, page = [], node.api.get(f"/v1/jobs/{name}/samples", limit=1000, text=text).value
    while page.get("looking"):
        found += page["items"]
        page = node.api.get(f"/v1/jobs/{name}/samples", limit=1000, text=text, after=page["next"]).value
    return [*found, *page["items"]]


def tool(node: Any, *words: str) -> dict[str, Any]:
    """Run one of the programs; its result."""
    return dict(json.loads(node.cli(*words, "--json").stdout))


@pytest.fixture
def measured(hostile_node: Any) -> tuple[Any, str]:
    """The node and its one job, which is done."""
    (name,) = hostile_node.dispatch(only_datasets=["hostile_rows"], settings={"max_tokens": "1048576"})
    job = hostile_node.wait_for_state(name, "done", "failed")
    assert job["state"] == "done", hostile_node.cli("logs", name).stdout
    return hostile_node, name


def test_every_text_comes_out_as_it_went_in(measured: tuple[Any, str], tmp_path: Path) -> None:
    node, name = measured
    found = texts(node, name)
    assert [one["prompt"] for one in found] == [f"case {number}: {text} =" for number, text in enumerate(WRITTEN)], (
        "the questions"
    )
    assert [one["completion"] for one in found] == WRITTEN
    assert [one["expected"] for one in found] == [f"none {number} {text}" for number, text in enumerate(WRITTEN)]
    assert all(one["detail"].endswith("True") or len(one["detail"]) == 500 for one in found), "what the judge said"
    assert {one["value"] for one in found} == {1.0}, "the judge could be asked about every one, and its word was read"

    assert node.cli("samples", name, "--full").returncode == 0
    shown = json.loads(node.cli("samples", name, "--limit", "1000", "--json").stdout)["items"]
    assert sorted(one["stages"][0]["completion"] for one in shown) == sorted(WRITTEN)
    for form in ("jsonl", "emoji-chat"):
        node.cli("export", "--samples", "--format", form, "--to", str(tmp_path / form))
        lines = [json.loads(line) for line in (tmp_path / form).read_bytes().removesuffix(b"\n").split(b"\n")]
        said = [one["stages"][0]["completion"] if form == "jsonl" else one[1]["🤖"] for one in lines]
        assert sorted(said) == sorted(WRITTEN), form
    node.cli("export", "--samples", "--format", "lm-eval", "--to", str(tmp_path / "lm_eval"))
    (file,) = (tmp_path / "lm_eval").rglob("samples_*.jsonl")
    lines = file.read_bytes().removesuffix(b"\n").split(b"\n")
    assert sorted(json.loads(line)["resps"][0][0] for line in lines) == sorted(WRITTEN)
    node.cli("report", str(tmp_path / "report.html"))
    page = Page()
    page.feed((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.tags["script"] == page.ends["script"] > 0
    assert page.tags["img"] == page.tags["textarea"] == page.handlers == 0, "no text became a part of the page"
    for number, text in enumerate(WRITTEN):
        if len(text) < 300:
            assert number in {one["row"] for one in with_text(node, name, text)}, text


def test_the_programs_on_the_store_keep_every_text(measured: tuple[Any, str], tmp_path: Path) -> None:
    node, name = measured
    before = texts(node, name)
    file = tmp_path / "backup"
    tool(node, "backup", str(file))
    node.terminate()
    tool(node, "restore", str(file), "--yes")
    node.start()
    assert texts(node, name) == before
    node.terminate()
    node.settings.pop("RWKVCTL_STORE", None)
    assert tool(node, "rebuild", "--yes")["problems"] == []
    node.start()
    assert texts(node, name) == before
