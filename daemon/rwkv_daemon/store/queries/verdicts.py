"""Queries of the judge and the checker: what waits for them, their verdicts and findings, and what was paid."""

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Final, NamedTuple

from rwkv_daemon.remote.server_reply import ServerReply, TokenUsage
from rwkv_daemon.store.interface import Store, StoreReader, StoreRow, Transaction
from rwkv_daemon.store.queries.jobs import as_json
from rwkv_daemon.store.wall_time import now

LATEST: Final = 1000
"""Replies whose mean length is taken."""
JOBS_AT_ONCE: Final = 500
PAYERS: Final = 23
"""The schema version since which replies name the job that has paid for them."""


@dataclass(frozen=True, slots=True)
class StoredReplies:
    """The judge's replies in the store: a reply that was paid for survives a crash of the daemon. `service` says whose
    budget pays for new ones; stored ones serve both services."""

    store: Store
    service: str

    async def get(self, key: str) -> ServerReply | None:
        """Return the reply under a key, or None."""
        row = await self.store.one("SELECT verdict FROM verdict WHERE key = ? AND verdict <> ''", (key,))
        if row is None:
            return None
        fields = json.loads(row["verdict"])
        return ServerReply(**fields | {"usage": TokenUsage(**fields["usage"])})

    async def put(self, key: str, reply: ServerReply, job: str) -> None:
        """Store a reply that a job (`j12`) has paid for. Of one that it replaces stays what that cost, and who paid
        it: under a key for which nobody asks."""
        async with self.store.write() as db:
            await db.execute(
                "UPDATE verdict SET key = ?, verdict = '' WHERE key = ?", (f"{key} {secrets.token_hex(8)}", key)
            )
            values = (key, now(), self.service, job, as_json(asdict(reply)), *astuple(reply.usage))
            await db.execute(PUT, values)


async def forget_texts(db: Transaction, before: str) -> None:
    """Forget the replies of endpoints whose models no job waits for: what was asked for is in the completions of its
    job. What they cost stays. A job that has failed or was stopped keeps those that are not older than `before`."""
    waiting = "SELECT weights_path FROM job WHERE state NOT IN ('done', 'deleted'"
    await db.execute(
        "UPDATE verdict SET verdict = '' WHERE service LIKE 'endpoint:%' AND verdict <> '' "
        f"AND (service NOT IN ({waiting})) OR at < ? AND service NOT IN ({waiting}, 'failed', 'stopped')))",
        (before,),
    )


PUT: Final = (
    "INSERT INTO verdict (key, at, service, job, verdict, prompt_tokens, completion_tokens, cost) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


async def spent(store: Store, service: str, resets: str) -> TokenUsage:
    """Return what a service was paid since its budget began: ever, or `daily` since midnight UTC."""
    since = now()[:10] if resets == "daily" else ""
    row = await store.one(
        "SELECT COALESCE(SUM(prompt_tokens), 0) AS prompt, COALESCE(SUM(completion_tokens), 0) AS completion, "
        "COALESCE(SUM(cost), 0.0) AS cost FROM verdict WHERE service = ? AND at >= ?",
        (service, since),
    )
    assert row is not None
    return TokenUsage(row["prompt"], row["completion"], row["cost"])


class JobPayments(NamedTuple):
    """What a job (`j12`) has paid for replies of a service: `judge`, `checker`, or `endpoint:NAME`."""

    job: str
    service: str
    usage: TokenUsage


async def paid_by(store: StoreReader, jobs: Sequence[str]) -> list[JobPayments]:
    """Return what jobs have paid so far, by job and service: for unusable replies, too. A reply that several jobs asked
    for was paid by one of them. Of replies from before schema version 23 nobody knows who paid them."""
    found: list[StoreRow] = []
    for first in range(0, len(jobs), JOBS_AT_ONCE):
        some = tuple(jobs[first : first + JOBS_AT_ONCE])
        found += await store.all(
            "SELECT job, service, SUM(prompt_tokens) AS prompt, SUM(completion_tokens) AS completion, "
            f"SUM(cost) AS cost FROM verdict WHERE job IN ({', '.join('?' * len(some))}) AND job <> '' "
            "GROUP BY job, service ORDER BY job, service",
            some,
        )
    return [
        JobPayments(row["job"], row["service"], TokenUsage(int(row["prompt"]), int(row["completion"]), row["cost"]))
        for row in found
    ]


def paid_to(payments: Iterable[JobPayments]) -> dict[str, TokenUsage]:
    """Return what was paid to each service, in the order of their names."""
    found = dict[str, TokenUsage]()
    for one in payments:
        found[one.service] = found.get(one.service, TokenUsage()) + one.usage
    return dict(sorted(found.items()))


async def payers_known_since(store: StoreReader) -> str:
    """Return since when it is stored which job pays for a reply, which is since its creation for a newer store."""
    (row,) = await store.all("SELECT at FROM migration WHERE version = ?", (PAYERS,))
    return str(row["at"])


async def spent_on(store: Store, job: int, grade_key: str) -> TokenUsage:
    """Return what the judge was paid for one job's grades so far."""
    rows = await store.all(
        "SELECT judge FROM sample JOIN grade ON sample = number AND grade_key = ? WHERE job = ? AND judge <> '{}'",
        (grade_key, job),
    )
    said = [json.loads(row["judge"]) for row in rows]
    return sum((TokenUsage(**one["usage"]) for one in said if "usage" in one), TokenUsage())


AGAIN: Final = as_json({"again": True})
"""In place of the judge's reply: it is to be asked again."""


@dataclass(frozen=True, slots=True)
class ToJudge:
    """A sample without a verdict, or a wrong one for the checker, with its texts by stage. `again`: the judge's earlier
    reply could not be used, and it is to be asked again."""

    number: int
    row: int
    repeat: int
    extracted: str
    expected: str
    texts: tuple[str, ...]
    stops: tuple[str, ...]
    again: bool = False


PAGE: Final = 512
"""Samples of one job whose texts are in memory at once."""


async def unjudged(store: Store, job: int, grade_key: str, after: int = 0) -> list[ToJudge]:
    """Return the next page of samples that wait for the judge, by number."""
    return await _samples(store, job, grade_key, "reason = 'unjudged'", after)


async def unchecked(store: Store, job: int, grade_key: str, after: int = 0) -> list[ToJudge]:
    """Return the next page of wrong samples that the checker has not reviewed, by number."""
    condition = "value < 1 AND number NOT IN (SELECT sample FROM finding WHERE grade_key = grade.grade_key)"
    return await _samples(store, job, grade_key, condition, after)


async def _samples(store: Store, job: int, grade_key: str, condition: str, after: int) -> list[ToJudge]:
    rows = await store.all(
        "SELECT number, row, repeat, extracted, expected, judge FROM sample "
        f"JOIN grade ON sample = number AND grade_key = ? WHERE job = ? AND number > ? AND {condition} "
        "ORDER BY number LIMIT ?",
        (grade_key, job, after, PAGE),
    )
    stages: dict[tuple[int, int], list[StoreRow]] = {}
    if rows:
        query = (
            "SELECT c.row, c.repeat, c.text, c.stop FROM completion c "
            "JOIN sample s ON s.job = c.job AND s.row = c.row AND s.repeat = c.repeat "
            f"JOIN grade ON sample = number AND grade_key = ? WHERE c.job = ? AND number BETWEEN ? AND ? "
            f"AND {condition} ORDER BY c.row, c.repeat, c.stage"
        )
        for stage in await store.all(query, (grade_key, job, rows[0]["number"], rows[-1]["number"])):
            stages.setdefault((stage["row"], stage["repeat"]), []).append(stage)
    found = []
    for r in rows:
        own = stages.get((r["row"], r["repeat"]), [])
        texts, stops = tuple(s["text"] for s in own), tuple(s["stop"] for s in own if s["stop"])
        place, again = (r["number"], r["row"], r["repeat"]), bool(json.loads(r["judge"]).get("again"))
        found.append(ToJudge(*place, r["extracted"] or "", r["expected"], texts, stops, again))
    return found


@dataclass(frozen=True, slots=True)
class JudgedSample:
    """The outcome for a grade: a verdict, or why there still is none."""

    sample: int
    value: float | None
    detail: str
    extracted: str
    parts: dict[str, float]
    judge: dict[str, object]


async def add_verdicts(db: Transaction, grade_key: str, verdicts: Sequence[JudgedSample]) -> None:
    """Store verdicts in their grades. An answer that the judge has extracted replaces the rule's."""
    rows = []
    for one in verdicts:
        place = (one.sample, grade_key)
        before = await db.one("SELECT parts, extracted FROM grade WHERE sample = ? AND grade_key = ?", place)
        if before is not None:
            parts = as_json(json.loads(before["parts"]) | one.parts)
            extracted = one.extracted or before["extracted"]
            rows.append((one.value, reason_of(one.value), one.detail, extracted, parts, as_json(one.judge), *place))
    await db.many(
        "UPDATE grade SET value = ?, reason = ?, detail = ?, extracted = ?, parts = ?, judge = ? "
        "WHERE sample = ? AND grade_key = ?",
        rows,
    )


def reason_of(value: float | None) -> str:
    """Return the grade's reason for a verdict: `unjudged` for None, `right` from 1 on, else `wrong`."""
    return "unjudged" if value is None else "right" if value >= 1 else "wrong"


async def numbers_of(db: Transaction, job: int) -> dict[tuple[int, int], int]:
    """Return (row, repeat) -> the number of each sample of a job."""
    rows = await db.all("SELECT row, repeat, number FROM sample WHERE job = ?", (job,))
    return {(row["row"], row["repeat"]): row["number"] for row in rows}


async def ask_again(db: Transaction, job: int, grade_key: str) -> None:
    """Let the judge be asked again about everything that is unjudged, whatever it replied before."""
    await db.execute(
        "UPDATE grade SET judge = ? WHERE grade_key = ? AND reason = 'unjudged' "
        "AND sample IN (SELECT number FROM sample WHERE job = ?)",
        (AGAIN, grade_key, job),
    )


async def copy_for_judge(db: Transaction, job: int, old_key: str, new_key: str) -> None:
    """Copy the grades to the key of another judge: samples that the old one decided are open again."""
    await db.execute(
        "INSERT INTO grade (sample, grade_key, value, reason, expected, extracted, detail, route, parts) "
        "SELECT sample, ?, CASE WHEN judge = '{}' THEN value END, "
        "CASE WHEN judge = '{}' THEN reason ELSE 'unjudged' END, expected, extracted, detail, route, parts FROM grade "
        "WHERE grade_key = ? AND sample IN (SELECT number FROM sample WHERE job = ?) "
        "ON CONFLICT DO NOTHING",
        (new_key, old_key, job),
    )


async def add_finding(
    db: Transaction, job: int, grade_key: str, sample: int, *, needs_review: bool, finding: dict[str, object]
) -> None:
    """Store what the checker says of a wrong answer."""
    await db.execute(
        "INSERT INTO finding (sample, grade_key, job, needs_review, finding) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (sample, grade_key) DO UPDATE SET job = excluded.job, needs_review = excluded.needs_review, "
        "reviewed = '', finding = excluded.finding",
        (sample, grade_key, job, int(needs_review), as_json(finding)),
    )


async def findings(store: Store, *, job: int | None, every: bool, after: int, limit: int) -> list[StoreRow]:
    """Return findings with their samples: those that a person should review and nobody has, or all."""
    conditions, parameters = ["f.sample > ?", "j.state <> 'deleted'"], [after]
    if job is not None:
        conditions.append("f.job = ?")
        parameters.append(job)
    if not every:
        conditions.append("f.needs_review = 1 AND f.reviewed = ''")
    return await store.all(
        "SELECT f.*, s.row, s.repeat, g.value, g.expected, g.extracted, j.model, j.benchmark, j.kind FROM finding f "
        "JOIN sample s ON s.number = f.sample JOIN job j ON j.id = f.job "
        "JOIN grade g ON g.sample = f.sample AND g.grade_key = f.grade_key "
        f"WHERE {' AND '.join(conditions)} ORDER BY f.sample LIMIT ?",
        (*parameters, limit),
    )


async def add_review(db: Transaction, sample: int, decision: str) -> int:
    """Store a person's decision about a sample's findings; returns how many there are."""
    return await db.execute("UPDATE finding SET reviewed = ? WHERE sample = ?", (decision, sample))


async def mean_reply(store: Store, service: str) -> tuple[float, float] | None:
    """Return the mean tokens of the latest (prompts, replies) of a service; None before the first."""
    row = await store.one(
        "SELECT AVG(prompt_tokens) AS prompt, AVG(completion_tokens) AS completion FROM "
        "(SELECT prompt_tokens, completion_tokens FROM verdict WHERE service = ? ORDER BY at DESC LIMIT ?) AS latest",
        (service, LATEST),
    )
    return None if row is None or row["prompt"] is None else (float(row["prompt"]), float(row["completion"]))


async def right_shares(store: Store) -> dict[tuple[str, str, str], float]:
    """Return (model, benchmark, kind) -> the share of samples that finished jobs had right."""
    rows = await store.all(
        "SELECT model, benchmark, kind, SUM(right_sum) / SUM(judged) AS share FROM job "
        "WHERE state = 'done' AND judged > 0 GROUP BY model, benchmark, kind"
    )
    return {(row["model"], row["benchmark"], row["kind"]): min(1.0, max(0.0, row["share"])) for row in rows}
