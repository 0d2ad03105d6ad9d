"""A node with many runs of many samples, and `rwkvctl report` of it."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from rwkvctl.protocol.replies import Reply, SamplesReply, ScoresReply
from rwkvctl.protocol.views import SampleView, ScoreView, StageView


def load(name: str) -> Any:
    """A module beside this one: tests have no packages."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


score_node = load("score_node")


class ReportNode(score_node.ScoreNode):  # type: ignore[misc, name-defined]  # loaded by its path
    """A matrix whose every run has the same long, wrong samples."""

    def __init__(self, models: int, benchmarks: int, samples: int) -> None:
        self.scores: list[ScoreView] = []
        self.history: list[ScoreView] = []
        super().__init__(models, benchmarks)
        self.said = "a line of words, 3 < 4\n" * 200
        self.count = samples

    def spoil(self, text: str) -> None:
        """Put a text wherever a foreign one can stand: names of models and kinds, samples, notes, provenance."""
        self.said = text
        for place, view in enumerate(self.views):
            name = f"{view.name} {text}"
            self.scores = [
                msgspec.structs.replace(
                    one, model=name, kind=text, warnings=(text,), provenance={text: text, "settings": {text: text}}
                ) if one.model == view.name else one
                for one in self.scores
            ]  # fmt: skip
            self.views[place] = msgspec.structs.replace(view, name=name)
        self.history = []

    def on_scores(self, query: dict[str, str], *_: Any) -> Reply:
        before, limit = int(query.get("before", 0)) or 2**62, int(query["limit"])
        items = [one for one in reversed(self.scores) if int(one.job[1:]) < before][:limit]
        return ScoresReply(items=tuple(items), next=int(items[-1].job[1:]) if len(items) == limit else 0, node="fake")

    def one_job(self, words: list[str], query: dict[str, str]) -> Reply:
        assert words[2:] == ["samples"]
        tail = int(query.get("tail", 0))
        stage = StageView(stage="answer", prompt=self.said[-tail:], completion=self.said[-tail:], stop="stop_token")
        found = [
            SampleView(number=row << 20, row=row, repeat=0, value=0.0, reason="wrong", expected=self.said[:200],
                         extracted=self.said[:200], detail=self.said[:200], stages=(stage,))
            for row in range(min(self.count, int(query["limit"])))
        ]  # fmt: skip
        return SamplesReply(items=tuple(found), node="fake")


Write = Callable[..., Path]


@contextmanager
def reporting(folder: Path, node: ReportNode) -> Iterator[tuple[ReportNode, Write]]:
    """The node served, and what writes a report of it."""

    def write(target: Path, *words: str) -> Path:
        found = subprocess.run(
            [sys.executable, "-m", "rwkvctl.cli", "report", str(target), *words, "--socket", str(folder / "d.sock")],
            env=os.environ | {"RWKVCTL_HOME": str(folder)}, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert found.returncode == 0, found.stderr
        return target

    with score_node.fake.serving(folder / "d.sock", node):
        yield node, write
