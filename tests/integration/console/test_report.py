"""`rwkvctl report`: the page says what the store says, and a browser shows it and obeys nothing in it."""

import json
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from rwkvctl.cli.commands.report import LARGEST

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">\u202eevil\x1b[2J"
)


class Read(HTMLParser):
    """A page as a browser reads it: its elements with their attributes, and what stands in scripts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and self.scripts:
            self.scripts[-1] += data

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [found for name, found in self.elements if name == tag]


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory, browsing: Any) -> Iterator[Any]:
    """A tab of a headless browser."""
    with browsing.browsing(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def written(measured: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the measured node."""
    target = tmp_path_factory.mktemp("report") / "scores.html"
    measured.cli("report", str(target), "--samples", "30")
    return target


@pytest.fixture
def report_node(tmp_path: Path, report_nodes: Any) -> Iterator[Any]:
    """Two models on three benchmarks, and what writes a report of them."""
    with report_nodes.reporting(tmp_path, report_nodes.ReportNode(2, 3, 5)) as found:
        yield found


@pytest.fixture
def big_report_node(tmp_path: Path, report_nodes: Any) -> Iterator[Any]:
    """A thousand runs of many samples."""
    with report_nodes.reporting(tmp_path, report_nodes.ReportNode(25, 40, 60)) as found:
        yield found


def test_the_page_has_what_the_store_has(measured: Any, written: Path, tmp_path: Path) -> None:
    page = Read(written.read_text())
    scores = measured.api.get("/v1/scores").value["items"]
    assert set(page.data["runs"]) == {score["job"] for score in scores}
    assert {job for found in page.all("td") if (job := found.get("data-job"))} == {score["job"] for score in scores}
    for score in scores:
        run = page.data["runs"][score["job"]]
        values = [sample[2] for sample in run["samples"]]
        wrong = measured.api.get(f"/v1/jobs/{score['job']}/samples", wrong=True, limit=1000).value["items"]
        shown = min(len(wrong), 30)
        assert [sample[0] for sample in run["samples"][:shown]] == [sample["row"] for sample in wrong[:30]]
        assert all(value == 1 for value in values[shown:]), "wrong ones first"
        assert len(values) == min(30, score["n"])
        assert ("left out" in run["left"]) == (score["n"] > 30)
        assert any(score["provenance"]["weights_sha256"] in str(table) for table in run["tables"])
    assert "are shown, at most 30 per run" in written.read_text()
    again = tmp_path / "again.html"
    measured.cli("report", str(again), "--samples", "30")
    assert again.read_bytes() == written.read_bytes(), "the same store gives the same file"


def test_the_page_is_alone(written: Path) -> None:
    page = Read(written.read_text())
    [policy] = [found["content"] or "" for found in page.all("meta") if found.get("http-equiv")]
    assert re.fullmatch(
        r"default-src 'none'; script-src 'sha256-[\w+/=]{44}'; style-src 'sha256-[\w+/=]{44}'; "
        r"base-uri 'none'; form-action 'none'", policy
    )  # fmt: skip
    assert len(page.all("script")) == 2
    named = {name for _, found in page.elements for name in found}
    assert not {name for name in named if name.startswith("on") or name in {"src", "style", "srcdoc"}}
    assert all((found["href"] or "").startswith("#") for found in page.all("a"))


def test_what_is_narrowed_and_what_is_refused(measured: Any, written: Path, tmp_path: Path) -> None:
    target = tmp_path / "one.html"
    measured.cli("report", str(target), "--model", "rwkv7-g1-*", "--benchmark", "own_quiz", "--samples", "0")
    data = Read(target.read_text()).data
    assert [name for name, _ in data["models"]] == ["rwkv7-g1-0.1b-20260801-ctx4096"]
    assert all(run["samples"] == [] for run in data["runs"].values())
    for words, code, said in (
        ((str(written),), 5, "--force"),
        ((str(tmp_path / "x.html"), "--model", "biultin"), 4, "Did you mean builtin?"),
        ((str(tmp_path / "x.html"), "--baseline", "nobody"), 4, "no score of nobody"),
        ((str(tmp_path / "x.html"), "--samples", "-1"), 2, "--samples takes 0 to"),
        ((str(tmp_path / "no" / "x.html"),), 1, "cannot be written"),
    ):
        found = measured.cli("report", *words, check=False)
        assert (found.returncode, said in found.stderr) == (code, True), found.stderr
    assert not (tmp_path / "x.html").exists()


def test_a_reader_finds_the_worst_benchmark_and_a_wrong_sample(written: Path, chrome: Any) -> None:
    chrome.open(written)
    assert chrome.look("document.querySelectorAll('#matrix tbody tr').length") == 2
    first = "document.querySelector('#matrix tbody tr').dataset.name"
    assert chrome.look("getComputedStyle(document.body).backgroundColor") == "rgb(251, 252, 253)"
    chrome.click("#matrix thead th:first-child button")
    assert (chrome.look(first), chrome.look("document.querySelector('#matrix th').ariaSort")) == (
        "builtin",
        "ascending",
    )
    chrome.click("#matrix thead th:first-child button")
    assert chrome.look(first) == "rwkv7-g1-0.1b-20260801-ctx4096"
    chrome.look("(() => { const e = document.getElementById('base'); e.value = [...e.options].find("
                "(o) => o.text === 'builtin').value; e.dispatchEvent(new Event('change')); })()")  # fmt: skip
    worst = chrome.look("document.querySelector('#matrix tbody tr').cells[2].textContent")
    assert re.fullmatch(r"demo_arith ▼ -\d+\.\d", worst)
    chrome.click("#matrix tbody tr td[data-job] a")
    chrome.until("document.getElementById('run').open")
    assert "▼ worse: -" in chrome.look("document.getElementById('against').textContent")
    chrome.click("#samples details:first-child summary")
    chrome.until("document.querySelector('#samples details').open")
    sample = chrome.look("document.querySelector('#samples details').innerText")
    assert sample.startswith("✗")
    assert "completion, ended by" in sample
    chrome.click("#wrong")
    assert chrome.look("[...document.querySelectorAll('#samples details')].every((e) => e.hidden || "
                       "e.querySelector('summary .bad, summary .warn'))")  # fmt: skip
    chrome.type("#text", "no such text anywhere")
    chrome.until("document.getElementById('found').textContent === '0 shown'")
    chrome.press("Escape", 27)
    chrome.until("document.getElementById('text').value === ''")
    chrome.press("Escape", 27)
    chrome.until("!document.getElementById('run').open && !location.hash")
    assert chrome.noise == []


def test_a_reader_narrows_and_links(written: Path, chrome: Any) -> None:
    chrome.open(written)
    chrome.type("#models", "g1 0801")
    chrome.until("[...document.querySelectorAll('#matrix tbody tr')].filter((e) => !e.hidden).length === 1")
    assert chrome.look("document.getElementById('shown').textContent") == "1 of 2 models shown"
    chrome.type("#benchmarks", "quiz")
    titles = "[...document.querySelectorAll('#matrix th')].filter((e) => !e.hidden).map((e) => e.dataset.title.trim())"
    chrome.until(f"!{titles}.join().includes('demo_arith')")
    assert chrome.look(titles)[:3] == ["model", "mean", "worst Δ"]
    chrome.click("#half")
    assert chrome.look("getComputedStyle(document.querySelector('#matrix .half')).display") == "none"
    chrome.click("#runs th:nth-child(5) button")
    assert chrome.look("document.querySelector('#runs th:nth-child(5)').ariaSort") == "descending"
    job, row = chrome.look("(() => { const [j, r] = Object.entries(data.runs).find(([, r]) => r.samples.length);"
                           " return [j, r.samples.at(-1)[0]]; })()")  # fmt: skip
    chrome.open(written, f"#{job}/{row}/0")
    chrome.until(f"document.getElementById('{job}/{row}/0')?.open")
    chrome.click("#shut")
    chrome.until("!document.getElementById('run').open")
    chrome.open(written, "#j999")
    assert not chrome.look("document.getElementById('run').open")
    chrome.ask("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert chrome.look("getComputedStyle(document.body).backgroundColor") == "rgb(11, 15, 20)"
    chrome.ask("Emulation.setEmulatedMedia", media="print")
    assert chrome.look("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert len(chrome.ask("Page.printToPDF")["data"]) > 10_000
    chrome.ask("Emulation.setEmulatedMedia", media="")
    assert chrome.noise == []


def test_hostile_text_is_only_text(report_node: Any, chrome: Any, tmp_path: Path) -> None:
    node, write = report_node
    node.spoil(HOSTILE)
    text = write(tmp_path / "hostile.html", "--samples", "3").read_text()
    assert "\u202e" not in text
    assert "\x1b" not in text
    page = Read(text)
    assert len(page.all("script")) == 2
    assert not page.all("img")
    assert any("</script>" in name for name, _ in page.data["models"])
    chrome.open(tmp_path / "hostile.html")
    chrome.look("location.hash = Object.keys(data.runs)[0]")
    chrome.until("document.querySelectorAll('#samples details').length === 3")
    chrome.click("#samples details:first-child summary")
    assert "</script>" in chrome.look("document.getElementById('samples').textContent")
    assert chrome.look("document.title") == "Scores of 2 models on 3 benchmarks, fake"
    assert chrome.look("document.images.length + document.scripts.length") == 2
    assert chrome.look("new Promise((done) => { const e = document.createElement('script'); e.textContent = "
                       "'document.title = 1'; document.body.append(e); setTimeout(() => done(document.title), 50); })"
                       ).startswith("Scores"), "the policy lets no other script run"  # fmt: skip
    assert chrome.noise, "and the browser says so"
    chrome.noise.clear()


def test_a_thousand_runs_of_fifty_samples_stay_small(big_report_node: Any, chrome: Any, tmp_path: Path) -> None:
    _, write = big_report_node
    target = write(tmp_path / "big.html", "--samples", "50")
    assert target.stat().st_size <= LARGEST
    data = Read(target.read_text()).data
    assert len(data["runs"]) == 1000
    assert sum(len(run["samples"]) for run in data["runs"].values()) == 50_000
    begun = time.monotonic()
    chrome.open(target, "#j5")
    chrome.until("document.querySelectorAll('#samples details').length === 50")
    print(f"{target.stat().st_size / 2**20:.1f} MiB, open in {time.monotonic() - begun:.1f} s")
    assert chrome.noise == []
