"""Pages of jobs, kept up to date by what is heard."""

from rwkvctl.protocol.replies import JobsReply
from rwkvctl.protocol.requests import JobsRequest
from rwkvctl.protocol.views import JobView, MetricView, ScoreView
from rwkvctl.tui.jobs.pages import PAGE, JobPages, is_plain


def job(number: int, state: str = "done", **more: object) -> JobView:
    return JobView(id=f"j{number}", model="m", benchmark="b", kind="k", state=state, session="s", **more)  # type: ignore[arg-type]


def reply(*jobs: JobView, more: int = 0) -> JobsReply:
    return JobsReply(items=jobs, counts={}, next=more)


def test_what_a_screen_is_about_is_a_group_and_words() -> None:
    for text, group, words in (("", "all", ""), ("failed", "failed", ""), ("failed gsm8k cot", "failed", "gsm8k cot"),
                               ("gsm8k", "all", "gsm8k")):  # fmt: skip
        pages = JobPages.about(text)
        assert (pages.group, pages.words) == (group, words)
        assert JobPages.about(pages.text) == pages
    assert JobPages.about("held x").request == JobsRequest(state="held", words="x", limit=PAGE)


def test_pages_follow_each_other_and_news_comes_on_top() -> None:
    pages = JobPages()
    pages.take(reply(job(9), job(8, "generating"), more=8))
    assert pages.request.before == 8
    heard = {"j8": job(8, "done"), "j11": job(11, "queued"), "j12": job(12, "held"), "j3": job(3)}
    assert [(row.id, row.state) for row in pages.update(heard)] == [
        ("j12", "held"), ("j11", "queued"), ("j9", "done"), ("j8", "done"),
    ]  # fmt: skip
    assert pages.update(heard) == pages.rows
    assert len(pages.rows) == 4
    pages.take(reply(job(7), job(3)))
    assert [row.id for row in pages.update(heard)] == ["j12", "j11", "j9", "j8", "j7", "j3"]
    assert pages.more == 0


def test_a_job_leaves_a_group_with_its_state_and_a_score_stays() -> None:
    pages = JobPages("running")
    pages.take(reply(job(5, "generating")))
    assert pages.update({"j5": job(5, "done")}) == []
    score = ScoreView(job="j4", model="m", benchmark="b", kind="k", version=1, primary="a", n=1, rows=1, repeats=1,
                      metrics={"a": MetricView(value=1.0)})  # fmt: skip
    pages = JobPages()
    pages.take(reply(job(4, score=score)))
    assert pages.update({"j4": job(4)})[0].score == score


def test_words_are_plain_and_expressions_are_the_consoles_own() -> None:
    assert is_plain("gsm8k cot")
    assert not any(map(is_plain, ("re:gsm", "!done", "~gs", "state:held", "done>5")))
