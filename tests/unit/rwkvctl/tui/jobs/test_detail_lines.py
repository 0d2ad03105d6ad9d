"""One job in lines, and what it writes now."""

import msgspec

from rwkvctl.protocol.record import ReproReply
from rwkvctl.protocol.replies import JudgeReply, NowReply, SoFarReply
from rwkvctl.protocol.views import JobView, JudgeJobView, JudgeView, MetricView
from rwkvctl.tui.daemon.state import ConsoleState
from rwkvctl.tui.jobs import detail_lines
from rwkvctl.tui.widgets.strips import Pieces

JOB = JobView(
    id="j4", model="m", benchmark="gsm8k", kind="cot", state="generating", session="s1", done=258, total=500,
    stages_done=700, stages_total=1000, samples_per_s=38.25, eta_s=404.0, attempt=2, numerics="fast",
    started="2026-11-22T10:00:00.000Z", running_score=MetricView(value=0.512, ci_low=0.45, ci_high=0.573),
)  # fmt: skip


def text(pieces: Pieces) -> str:
    return "".join(part for part, _ in pieces)


def test_a_running_job_says_how_far_it_is_and_until_when() -> None:
    head = text(detail_lines.head(JOB, 1795255200.0 + 60 * 7 + 12))
    assert "j4  m × gsm8k cot" in head
    assert "▸ generating" in head
    assert "attempt 2" in head
    progress = text(detail_lines.progress(JOB, 120))
    assert "258/500  51.6 %  38.2/s  ETA 6m44s" in progress
    assert text(detail_lines.stages(JOB)) == " stages   completions 700/1,000 70 %   graded 258"
    assert "51.2 ±6.2 so far" in text(detail_lines.score(JOB, None))
    assert detail_lines.engine(JOB, ConsoleState()) == []
    assert detail_lines.trouble(JOB) == []


def test_a_job_that_is_judged_says_what_is_left_and_why_it_waits() -> None:
    waits = JudgeJobView(job="j4", waiting=3, judged=12, parked="the judge answers 429")
    judge = JudgeReply(judges=(JudgeView(role="judge", model="x", jobs=(waits,)),))
    assert text(detail_lines.stages(JOB, judge)).endswith("judge 12 done, 3 waiting: the judge answers 429")
    assert "judge" not in text(detail_lines.stages(JOB, JudgeReply(judges=())))


def test_the_last_run_on_the_same_rows_stands_beside_the_score() -> None:
    before = SoFarReply(other="j1", model="m", rows=258, value=0.512, before=0.523, p=0.63,
                        difference=MetricView(value=-0.011))  # fmt: skip
    assert "same 258 rows in j1 52.3  ▼ -1.1 p=0.63" in text(detail_lines.score(JOB, before))
    other = SoFarReply(other="j1", model="older", rows=9, before=0.1, p=0.01, difference=MetricView(value=0.2),
                       differs=("numerics",))  # fmt: skip
    pieces = detail_lines.score(JOB, other)
    assert "in j1 (older)" in text(pieces)
    assert (" ▲ +20.0", "ok") in pieces
    assert "another numerics" in text(pieces)
    assert text(detail_lines.score(JOB, SoFarReply(note="nothing to compare with"))).endswith("nothing to compare with")


def test_a_failure_has_its_class_and_a_remedy_a_hold_its_reason() -> None:
    failed = JobView(id="j4", model="m", benchmark="b", kind="k", state="failed", session="s", failure="infrastructure",
                     detail="out of memory")  # fmt: skip
    first, second = map(text, detail_lines.trouble(failed))
    assert "infrastructure: out of memory" in first
    assert "press e to retry" in second
    held = JobView(id="j4", model="m", benchmark="b", kind="k", state="held", session="s", reason="data-missing",
                   detail="no rows")  # fmt: skip
    assert "data-missing: no rows · the rows are not prepared" in text(detail_lines.trouble(held)[0])


def test_what_is_written_now_is_the_end_of_it_and_obeyed_by_no_terminal() -> None:
    reply = NowReply(count=3, place=1, row=17, repeat=2, stage="think", tokens=5, max_tokens=1024,
                     prompt="User: What is 3+4?\n\nAssistant:", text="first\n" + "x" * 200 + "\x1b[2Jend")  # fmt: skip
    lines = detail_lines.now_lines(reply, 40, 4)
    assert text(lines[0]) == " Q  What is 3+4?"
    assert len(lines) == 4
    assert text(lines[-1]).endswith("␛[2Jend▌")
    assert all(len(text(line)) <= 40 for line in lines)
    title = text(detail_lines.now_title(reply, frozen=True))
    assert "row 17 repeat 2  think  5 of at most 1,024 tokens  2 of 3  frozen" in title
    assert detail_lines.now_lines(NowReply(note="nothing"), 40, 4) == []
    assert "nothing" in text(detail_lines.now_title(NowReply(note="nothing"), frozen=False))
    long = NowReply(count=1, prompt="a" * 100, text="")
    assert text(detail_lines.now_lines(long, 40, 4)[0]) == " Q  …" + "a" * 34


def test_settings_are_flat_and_the_command_that_repeats_them_stands_above() -> None:
    configuration = {"stages": [{"name": "think", "sampling": {"temperature": 0.3, "banned": []}}], "seed": 7}
    repro = ReproReply(job="j4", argv=("rwkvctl", "dispatch", "--models", "m"), generation_key="k", same=False,
                       differs=("the rows are others",))  # fmt: skip
    lines = [text(line) for line in detail_lines.configured(JOB, configuration, repro)]
    assert "rwkvctl dispatch --models m" in lines[0]
    assert "the rows are others" in lines[1]
    flat = dict(detail_lines.flat(configuration))
    assert flat == {"stages.think.sampling.temperature": "0.3", "stages.think.sampling.banned": "–", "seed": "7"}
    assert any(line.split() == ["seed", "7"] for line in lines)


def test_a_job_says_which_rows_it_was_told_to_ask() -> None:
    picked = msgspec.structs.replace(JOB, limit=9, picks='rows=0:100 where=a="\n"')
    told = text(detail_lines.stages(picked))
    assert told.endswith('graded 258   first 9 rows only   rows picked by rows=0:100 where=a="␊"')
