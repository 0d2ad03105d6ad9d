"""What a judge is asked, as a request."""

from typing import Any

from rwkv_daemon.judge.judge_question import JudgeQuestion


def test_questions_differ_by_everything_that_is_asked() -> None:
    def key(model: str = "m", rule: str = "r/1", text: str = "q", attempt: int = 0, **_: Any) -> str:
        return JudgeQuestion(rule, ({"role": "user", "content": text},), "", 10, 0.0, attempt).key(model)

    assert len({key(), key(model="n"), key(rule="r/2"), key(text="p"), key(attempt=1)}) == 5
    assert key() == key()
