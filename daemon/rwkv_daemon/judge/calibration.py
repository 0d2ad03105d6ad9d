"""How reliable the judge is: it judges answers whose verdict is known, without being told which."""

from dataclasses import dataclass

from rwkv_daemon.judge.judge_service import JudgeOutcome, JudgeService, JudgeTask
from rwkv_daemon.store.wall_time import now
from rwkv_data.judges.agreement import Agreement
from rwkv_data.judges.calibration import CalibrationAnswer, rows_for
from rwkv_data.judges.judge_rule import JudgeRule, JudgeVerdict


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result for a judge model under one rule. `misjudged` holds (what is hard about the answer, the judge's
    reason) for each wrong verdict."""

    model: str
    rule: str
    at: str
    agreement: Agreement
    misjudged: tuple[tuple[str, str], ...]

    def sentence(self) -> str:
        """Return the sentence beside the scores that this judge gave."""
        return f"{self.model} by {self.rule}: {self.agreement.sentence()}"


async def calibrate(service: JudgeService, rule: JudgeRule, *, job: str = "calibration") -> Calibration:
    """Judge every known answer once. Replies come from the cache if this judge was asked before."""
    found: list[tuple[CalibrationAnswer, JudgeOutcome[JudgeVerdict]]] = []
    tasks = {
        JudgeTask[JudgeVerdict](
            job=job, row=known.row, rule=rule, extracted=known.answer.text, answer=known.answer, label=known.about
        ): known
        for known in rows_for(rule)
    }

    async def deliver(task: JudgeTask[JudgeVerdict], outcome: JudgeOutcome[JudgeVerdict]) -> None:
        found.append((tasks[task], outcome))

    await service.judge_all(tasks, deliver)
    service.close_job(job)
    wrong = [
        (known.about, outcome.detail)
        for known, outcome in found
        if outcome.value is not None and (outcome.value >= 0.5) != (known.value >= 0.5)
    ]
    agreement = Agreement.of((known.value, outcome.value) for known, outcome in found)
    return Calibration(service.model, f"{rule.name}/{rule.version}", now(), agreement, tuple(sorted(wrong)))
