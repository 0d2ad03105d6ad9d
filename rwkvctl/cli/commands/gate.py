"""`rwkvctl gate`: refuse a checkpoint that got worse."""

from rwkvctl.cli.client import Answer, Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.long_reads import compared
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import comparison_tables
from rwkvctl.cli.waiting import refuse_stale
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.json_envelope import envelope


@verb
def gate(
    context: Context, model: str, *, baseline: str = "", benchmark: list[str] = [], kind: list[str] = [],  # noqa: B006
    margin: float = 0.01, alpha: float = 0.05,
) -> int:  # fmt: skip
    """Check that a model is on no benchmark significantly worse than a baseline.

    Without --baseline it is the one that `rwkvctl baseline pin` has set for the model.

    Compares as `rwkvctl compare BASELINE MODEL` does. A benchmark fails when
    its adjusted p (Holm) is below --alpha and the drop is larger than
    --margin; smaller drops pass even if they are significant. A benchmark is
    undecided when only the baseline has a score, a score is null, or the two
    are not comparable. Undecided never counts as passed.

    Exit code: 0 passed, 1 a regression, 8 no regression found, but not all was compared.

    model: the model, job or MODEL@VERSION to check
    baseline: the model, job or MODEL@VERSION to compare with (default: the pinned one)
    benchmark: only these benchmarks
    kind: only these kinds
    margin: a drop of at most this much passes, as a fraction of 1 (in the metric's unit where that is no share)
    alpha: the error rate of the whole family of tests

    $ rwkvctl gate rwkv7-g1d-0.4b-20260210 --baseline rwkv7-g1a-0.4b-20250905
    $ rwkvctl gate j40 --baseline j12 --margin 0 --json
    $ rwkvctl gate g1x-rwkv-12
    """
    body = comparison_tables.body(baseline, model, benchmark, kind, alpha=alpha, force=False)
    reply = compared(context.client, body).value
    refuse_stale(reply)
    items = [judged(item, margin, alpha) for item in reply["items"]] + [
        unscored(key) for key in reply.get("only_a", ())
    ]
    verdict, code = outcome(items)
    fields = {"model": reply["b"], "baseline": reply["a"], "margin": margin, "alpha": alpha, "verdict": verdict}
    found = Answer(envelope("rwkvctl.gate/1", fields | {"items": items}).encode(), {})
    context.show(found, comparison_tables.table(items), headline=[f"{reply['b']} against {reply['a']}: {verdict}", ""])
    if not context.as_json:
        say_why(context, items, verdict)
    return code


def judged(item: Record, margin: float, alpha: float) -> Record:
    """Return a comparison with the gate's verdict: passed, regression or undecided."""
    difference = (item.get("difference") or {}).get("value")
    if item.get("p_holm") is None or difference is None:
        return item | {"gate": "undecided"}
    drop = difference if item.get("lower_is_better") else -difference
    return item | {"gate": "regression" if item["p_holm"] < alpha and drop > margin else "passed"}


def unscored(key: str) -> Record:
    """Return the item for a benchmark that only the baseline has."""
    benchmark, _, kind = key.partition(" ")
    why = "the model has no score for it"
    return {"benchmark": benchmark, "kind": kind, "verdict": "not comparable", "why": why, "gate": "undecided"}


def outcome(items: list[Record]) -> tuple[str, int]:
    """Return the verdict for all benchmarks, and the exit code. No comparison at all is undecided."""
    found = {item["gate"] for item in items}
    if "regression" in found:
        return "regression", Exit.FAILED
    return ("passed", Exit.OK) if found == {"passed"} else ("undecided", Exit.PARTLY)


def say_why(context: Context, items: list[Record], verdict: str) -> None:
    """Print what kept the model from passing, one line each."""
    for text in sorted({text for item in items for text in item.get("noted", ())}):
        context.say(f"note: {text}")
    for item in items:
        name = f"{item['benchmark']} {item['kind']}"
        if item["gate"] == "regression":
            context.say(f"regression: {name}: {comparison_tables.in_words(item)}")
        elif item["gate"] == "undecided":
            context.say(f"undecided: {name}: {item.get('why', '')}")
    if verdict == "undecided" and not items:
        context.say("undecided: model and baseline have no benchmark in common")
