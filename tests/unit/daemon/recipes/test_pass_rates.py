"""Of which jobs the samples say how difficult a row is."""

from types import SimpleNamespace
from typing import Any

import pytest

from rwkv_daemon.recipes import pass_rates
from rwkv_data.definition import registry
from rwkvctl.protocol.errors import Exit, RefusedError

CATALOGUE: Any = SimpleNamespace(
    benchmarks=SimpleNamespace(kind_of=lambda benchmark, kind: registry.load(benchmark).kinds[kind])
)


def job(benchmark: str, kind: str, **changes: Any) -> Any:
    plain = {"name": "j1", "state": "done", "reason": "", "detail": "", "source_job": None, "labels_rows": False}
    return SimpleNamespace(**plain | {"benchmark": benchmark, "kind": kind} | changes)


def refusal(found: Any) -> str:
    with pytest.raises(RefusedError) as caught:
        pass_rates.check(CATALOGUE, found.benchmark, found)
    assert caught.value.exit_code == Exit.REFUSED
    return str(caught.value)


@pytest.mark.parametrize(("benchmark", "metric"), [("held_out_text", "bits_per_byte"), ("flores200", "chrf")])
def test_kinds_without_right_and_wrong_say_nothing(benchmark: str, metric: str) -> None:
    for kind in registry.load(benchmark).kinds:
        said = refusal(job(benchmark, kind))
        assert said == f"j1 measures {metric}: no sample of it is right or wrong."


@pytest.mark.parametrize("benchmark", ["demo_arith", "demo_choice", "gsm8k", "human_eval"])
def test_kinds_with_verdicts_are_taken(benchmark: str) -> None:
    for name, kind in registry.load(benchmark).kinds.items():
        if kind.search is None:
            pass_rates.check(CATALOGUE, benchmark, job(benchmark, name))
        else:
            assert "searches for settings" in refusal(job(benchmark, name))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"state": "queued"}, "j1 is queued; its verdicts count when it is done."),
        ({"source_job": 7}, "j1 rewrites right samples only: name j7."),
        (
            {"reason": "done", "detail": "uses the score of j3"},
            "j1 has no samples of its own: it uses the score of j3.",
        ),
    ],
)
def test_a_job_without_verdicts_of_its_own_is_refused(changes: dict[str, Any], sentence: str) -> None:
    assert refusal(job("demo_arith", "free_response", **changes)) == sentence
