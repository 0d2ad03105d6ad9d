"""What will run in order, and what will not by reason: every row of a plan has one place."""

from msgspec import structs

from rwkvctl.protocol.replies import PlanReply
from rwkvctl.protocol.requests import Selection
from rwkvctl.protocol.views import JobView, PaidView, PlanRow
from rwkvctl.tui.dispatch import plan_rows, planner, rerun
from rwkvctl.tui.widgets.table_columns import text_of


def row(benchmark: str, action: str, reason: str, **more: object) -> PlanRow:
    return PlanRow(model="m", benchmark=benchmark, kind="cot", action=action, reason=reason, **more)  # type: ignore[arg-type]


PLAN = PlanReply(
    hash="77c1", computed_ms=3.0, models=1, benchmarks=6, counts={},
    rows=(
        row("a", "run", "run", est_s=60.0, starts_s=0.0, lease="3", basis="by the same work"),
        row("b", "skip", "done", job="j1"), row("c", "skip", "done", job="j2"),
        row("d", "hold", "data-missing", detail="no rows"), row("e", "resume", "resume", est_s=30.0, starts_s=90.0),
        row("f", "skip", "excluded"),
    ),
)  # fmt: skip
JOBS = [
    JobView(id="j7", model="m", benchmark="x", kind="cot", state="queued", session="s", reason="waits-for-engine",
            detail="needs 24 GiB", priority=3, total=9, eta_s=100.0, starts_s=40.0, expected_on="0"),
    JobView(id="j8", model="m", benchmark="y", kind="cot", state="held", session="s", reason="held", detail="alice"),
]  # fmt: skip


def cells(turn: plan_rows.QueueRow) -> dict[str, str]:
    return {column.title: text_of(column.cell(turn)) for column in plan_rows.ORDER}


def test_jobs_come_first_then_what_the_plan_would_add() -> None:
    found = plan_rows.turns(JOBS, PLAN)
    assert [turn.key for turn in found] == ["j7", "j8", "+m\na\ncot", "+m\ne\ncot"]
    assert [turn.place for turn in found] == [1, 2, 3, 4]
    first, second, fresh, resumed = map(cells, found)
    assert (first["EST"], first["START"], first["WHERE"], first["WHY"]) == ("1m00s", "in 40s", "0", "needs 24 GiB")
    assert (second["STATE"], second["WHY"], second["START"]) == ("! held", "alice", "–")
    assert (fresh["JOB"], fresh["STATE"], fresh["START"], fresh["EST"]) == ("–", "+ new", "now", "1m00s")
    assert "model already loaded; estimated by the same work" in fresh["WHY"]
    assert (resumed["STATE"], resumed["START"]) == ("+ resume", "in 1m30s")
    assert plan_rows.turns(JOBS, None) == found[:2]


def test_every_row_that_would_not_run_is_in_just_one_group() -> None:
    closed = plan_rows.lines(PLAN, set())
    assert [(line.reason, len(line.rows)) for line in closed] == [("done", 2), ("data-missing", 1), ("excluded", 1)]
    opened = plan_rows.lines(PLAN, {"done"})
    assert [line.key for line in opened] == ["done", "m\nb\ncot", "m\nc\ncot", "data-missing", "excluded"]
    said = {line.key: plan_rows.meaning(line) for line in opened}
    assert said["done"].endswith("prompts, sampling and seed: b, c")
    assert said["m\nb\ncot"] == "j1"
    assert {text_of(plan_rows.reason_cell(line)) for line in opened} >= {"▾ done", "    b cot m", "▸ excluded"}


def test_a_group_of_many_benchmarks_names_models_instead() -> None:
    many = PlanReply(hash="", computed_ms=0, models=1, benchmarks=9, counts={},
                     rows=tuple(row(f"b{n}", "skip", "done") for n in range(9)))  # fmt: skip
    assert plan_rows.meaning(plan_rows.lines(many, set())[0]).endswith(": m (9)")


def test_the_plan_is_told_in_one_line() -> None:
    assert plan_rows.told(PLAN) == "would run 2 (1 resume) · done 2 · data-missing 1 · excluded 1"
    assert plan_rows.estimated(PLAN) == "est. 1m30s"


def test_what_judge_and_checker_cost_stands_before_the_yes() -> None:
    judge = PaidView(role="judge", model="gpt\x1b[2J", calls=90, calls_most=200, tokens=5000, cost=1.5, budget_left=9.0)
    plan = structs.replace(PLAN, paid=(judge, structs.replace(judge, role="checker", budget_left=1.0)))
    enough, short = plan_rows.paid(plan)
    assert "judge gpt" in enough[1][0]
    assert "about 90 calls (at most 200), 5,000 tokens" in enough[1][0]
    assert "cost about 1.50; budget left 9.00" in enough[1][0]
    assert "\x1b" not in enough[1][0]
    assert (enough[1][1], short[1][1]) == ("", "warn")
    asked = planner.question(planner.PlannedDispatch((), Selection(), plan))
    again = rerun.question(Selection(), plan, ())
    assert all(line in form for line in (enough, short) for form in (asked, again))
    assert plan_rows.paid(PLAN) == []
