"""A daemon that plays a node with many models and many benchmarks, for the matrix and for comparisons."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import msgspec

from rwkvctl.protocol.replies import BenchmarksReply, CompareReply, JobReply, ModelsReply, Reply, ScoresReply
from rwkvctl.protocol.views import BenchmarkView, ComparisonView, FlipView, MetricView, ModelView, ScoreView


def load_fake() -> Any:
    """The module beside this one: tests have no packages."""
    name = "fake_daemon"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


fake = load_fake()
KNOWN = ("arc_easy", "gsm8k", "human_eval", "ifeval", "lambada", "math_500", "mbpp_plus", "mmlu", "mmlu_pro", "svamp")
DOMAINS = {"mmlu": "multi_choice", "mmlu_pro": "multi_choice", "arc_easy": "multi_choice", "human_eval": "code",
           "mbpp_plus": "code", "ifeval": "instruction_following", "lambada": "language_model"}  # fmt: skip
SIZES = (0.1, 0.4, 1.5, 2.9)
VERSIONS = ("g0", "g1", "g1a", "g1b", "g1c", "g1d")


class ScoreNode(fake.Node):  # type: ignore[misc]  # loaded by its path
    """`models` models, the newest of each size after the one before it, on `benchmarks` benchmarks, each run once but
    gsm8k of the first model; gsm8k has subjects. Every model is 3 points worse on human_eval than the one before, and
    better elsewhere."""

    def __init__(self, models: int = 8, benchmarks: int = 10) -> None:
        super().__init__()
        more = [f"set_{number:02d}" for number in range(benchmarks - len(KNOWN))]
        self.benchmarks = sorted([*KNOWN, *more][:benchmarks])
        self.views = [self.model(number) for number in range(models)]
        self.scores = [
            self.one_score(1 + number * len(self.benchmarks) + place, view.name, name, number)
            for number, view in enumerate(self.views)
            for place, name in enumerate(self.benchmarks)
        ]
        first = self.name(0)
        self.history = [self.one_score(90_000 + n, first, "gsm8k", n, version=2 + n) for n in range(3)]
        self.pages = 0

    def model(self, number: int) -> ModelView:
        """A checkpoint by its number."""
        size, age = SIZES[number % len(SIZES)], number // len(SIZES)
        previous = self.name(number - len(SIZES)) if age else ""
        return ModelView(name=self.name(number), path="", size_bytes=0, parameters_b=size, previous=previous,
                           data_version=VERSIONS[age % len(VERSIONS)], date=self.date(number))  # fmt: skip

    def name(self, number: int) -> str:
        """Its name, which says its size, its data and its date."""
        size, age = SIZES[number % len(SIZES)], number // len(SIZES)
        return f"rwkv7-{VERSIONS[age % len(VERSIONS)]}-{size:g}b-{self.date(number)}-ctx8192"

    def date(self, number: int) -> str:
        """One a day."""
        return f"{20200101 + 10000 * (number // 336) + 100 * (number // 28 % 12) + number % 28}"

    def one_score(self, job: int, model: str, benchmark: str, number: int, version: int = 1) -> ScoreView:
        """What a model has on a benchmark."""
        age = number // len(SIZES) if version == 1 else number
        value = min(0.97, 0.3 + 0.05 * (number % len(SIZES)) + (-0.03 if benchmark == "human_eval" else 0.02) * age)
        metrics = {"accuracy": MetricView(value=value, ci_low=value - 0.02, ci_high=value + 0.025)}
        metrics |= {"pass@4": MetricView(value=value + 0.1, ci_low=value, ci_high=value + 0.2)} if number % 2 else {}
        groups = {"addition": {"value": 0.9, "rows": 600}, "division": {"value": 0.2, "rows": 719}}
        known = {"seed": 7, "attempts": 1, "started": "2026-11-21T05:00:00.000Z", "generated_tokens": 1_000_000,
                 "weights_sha256": "9f31c0aa", "configuration": {"profile": "rwkv-skills-v1", "profile_version": 3},
                 "groups": groups if benchmark == "gsm8k" else {}}  # fmt: skip
        return fake.score(job, model=model, benchmark=benchmark, kind="cot", metrics=metrics, version=version,
                          finished=f"2026-11-{1 + version:02d}T05:10:00.000Z", provenance=known,
                          completion_tokens=300.0)  # type: ignore[no-any-return]  # fmt: skip

    def on_scores(self, query: dict[str, str], *_: Any) -> Reply:
        self.pages += "before" in query
        every = [*self.history, *reversed(self.scores)]
        every = sorted(every, key=lambda view: -int(view.job[1:]))
        if query.get("all_versions") == "true":
            items = [view for view in every if (view.model, view.benchmark) == (query["model"], query["benchmark"])]
            return ScoresReply(items=tuple(items), node="fake")
        again = self.history[0] if self.history else None
        hidden = {view.job for view in self.history[:-1]}
        hidden |= {
            view.job for view in self.scores if again and again.model == view.model and view.benchmark == "gsm8k"
        }
        before, limit = int(query.get("before", 0)) or 2**62, int(query.get("limit", 1000))
        items = [view for view in every if view.job not in hidden and int(view.job[1:]) < before][:limit]
        brief = [msgspec.structs.replace(view, provenance={}) for view in items]
        return ScoresReply(items=tuple(brief), next=int(items[-1].job[1:]) if len(items) == limit else 0, node="fake")

    def on_models(self, *_: Any) -> Reply:
        return ModelsReply(items=tuple(self.views), node="fake")

    def on_benchmarks(self, *_: Any) -> Reply:
        items = [
            BenchmarkView(name=name, title=name, domain=DOMAINS.get(name, "free_response"), kinds=("cot",), version=1,
                            split="test")
            for name in self.benchmarks
        ]  # fmt: skip
        return BenchmarksReply(items=tuple(items), node="fake")

    def one_job(self, words: list[str], *more: Any) -> Reply:
        found = next((view for view in (*self.scores, *self.history) if view.job == words[1]), None)
        if found is None or len(words) > 2:
            return super().one_job(words, *more)  # type: ignore[no-any-return]  # loaded by its path
        names = {name: getattr(found, name) for name in ("model", "benchmark", "kind")}
        return JobReply(item=fake.job(int(words[1][1:]), "done", score=found, **names), node="fake")

    def newest(self, side: str) -> dict[str, ScoreView]:
        """What a model or a job stands for."""
        every = [*self.scores, *self.history]
        return {view.benchmark: view for view in every if side in {view.model, view.job}}

    def on_compare(self, _: Any, body: Any) -> Reply:
        a, b = self.newest(body["a"]), self.newest(body["b"])
        items = tuple(self.compared(a[name], b[name], body.get("flips", 0)) for name in a if name in b)
        counts = {item.verdict: sum(other.verdict == item.verdict for other in items) for item in items}
        return CompareReply(a=body["a"], b=body["b"], alpha=0.05, items=items, counts=counts, node="fake")

    def compared(self, a: ScoreView, b: ScoreView, flips: int) -> ComparisonView:
        """B against A; svamp is never comparable."""
        common = {"benchmark": a.benchmark, "kind": a.kind, "job_a": a.job, "job_b": b.job, "metric": "accuracy"}
        if a.benchmark == "svamp":
            return ComparisonView(**common, verdict="not comparable", why="not the same in both: limit",
                                    differs=("limit: 40 in A, 50 in B",))  # fmt: skip
        value_a, value_b = (view.metrics["accuracy"].value or 0.0 for view in (a, b))
        change = value_b - value_a
        verdict: Any = "worse" if change < -0.025 else "better" if change > 0.03 else "no difference shown"
        found = tuple(
            FlipView(row=n, value_a=1.0, value_b=0.0, sample_a=n + 1, sample_b=n + 101, after=n * 2**20 - 1,
                       expected=str(n), answer_a=str(n), answer_b=None if n % 3 else str(n + 1), reason_a="right",
                       reason_b="no_answer" if n % 3 else "wrong", cut_b=n % 3 == 1)
            for n in range(min(flips, 5))
        ) + tuple(
            FlipView(row=9, value_a=0.0, value_b=1.0, sample_a=10, sample_b=110, after=9 * 2**20 - 1, expected="9",
                       answer_a="8", answer_b="9", reason_a="wrong", reason_b="right")
            for _ in range(min(flips, 1))
        )  # fmt: skip
        return ComparisonView(
            **common, verdict=verdict, a=value_a, b=value_b, rows=1319, only_a=5, only_b=1, test="mcnemar", p=0.0123,
            p_holm=0.0246, noted=("seed: 7 in A, 8 in B",), flips=found,
            difference=MetricView(value=change, ci_low=change - 0.01, ci_high=change + 0.01),
        )  # fmt: skip
