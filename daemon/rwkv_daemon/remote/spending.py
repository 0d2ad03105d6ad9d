"""Limits of what asking a model may cost: in all and per job, in money and in tokens. Requests in flight count with the
most they can cost."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rwkv_daemon.remote.server_reply import NOTHING, TokenUsage
from rwkvctl.settings.judge import JudgeConfig


def utc_day() -> str:
    """Return the day for which a daily budget counts."""
    return datetime.now(UTC).date().isoformat()


@dataclass(slots=True)
class Budget:
    """Spending of one service; `who` is named in refusals: "the judge", "qwq". `spent` and `jobs` are actual costs,
    `held` is reserved for requests in flight."""

    who: str
    config: JudgeConfig
    spent: TokenUsage = NOTHING
    today: Callable[[], str] = utc_day
    jobs: dict[str, TokenUsage] = field(default_factory=dict)
    held: TokenUsage = NOTHING
    held_by_job: dict[str, TokenUsage] = field(default_factory=dict)
    day: str = ""

    def __post_init__(self) -> None:
        self.day = self.today()

    def refusal(self, job: str, most: TokenUsage) -> str:
        """Return why a request that costs `most` must wait; empty if it need not."""
        config = self.config
        return self.refusal_of_all(most) or _over(
            f"the budget of {job}",
            config.job_budget,
            config.job_budget_tokens,
            self.of(job) + self.held_by_job.get(job, NOTHING) + most,
        )

    def refusal_of_all(self, most: TokenUsage) -> str:
        """Return why no job may send a request that costs `most`; empty if the budget for all allows it."""
        config = self.config
        self._turn_of_the_day()
        return _over(f"{self.who}'s budget", config.budget, config.budget_tokens, self.spent + self.held + most)

    def left(self) -> tuple[float | None, int | None]:
        """Return (money, tokens) that may still be spent in all; None if there is no such limit."""
        self._turn_of_the_day()
        config, gone = self.config, self.spent + self.held
        return (
            max(0.0, config.budget - gone.cost) if config.budget else None,
            max(0, config.budget_tokens - gone.tokens) if config.budget_tokens else None,
        )

    def of(self, job: str) -> TokenUsage:
        """Return what a job has spent so far."""
        return self.jobs.get(job, NOTHING)

    def hold(self, job: str, most: TokenUsage) -> None:
        """Reserve budget for a request that is about to be sent."""
        self.held += most
        self.held_by_job[job] = self.held_by_job.get(job, NOTHING) + most

    def release(self, job: str, most: TokenUsage) -> None:
        """Return what `hold` reserved for a request; `add` records its actual cost."""
        back = TokenUsage(-most.prompt_tokens, -most.completion_tokens, -most.cost)
        self.held += back
        self.held_by_job[job] = self.held_by_job.get(job, NOTHING) + back

    def add(self, job: str, usage: TokenUsage) -> None:
        """Add the cost of a completed request to the day's spending and its job's."""
        self._turn_of_the_day()
        self.spent += usage
        self.jobs[job] = self.of(job) + usage

    def forget(self, job: str) -> None:
        """Forget a job that is over. What it has reserved is released when its requests end."""
        self.jobs.pop(job, None)
        if not self.held_by_job.get(job, NOTHING).tokens:
            self.held_by_job.pop(job, None)

    def _turn_of_the_day(self) -> None:
        if self.day != self.today():
            self.day = self.today()
            if self.config.budget_resets == "daily":
                self.spent = NOTHING


def _over(whose: str, money: float, tokens: int, wanted: TokenUsage) -> str:
    slack = 1e-9  # sums of many small costs
    if money and wanted.cost > money + slack:
        return f"{whose} of {money:g} does not allow another request"
    if tokens and wanted.tokens > tokens:
        return f"{whose} of {tokens:,} tokens does not allow another request"
    return ""
