"""Queries about sessions, jobs and their attempts."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from rwkv_daemon.store.interface import Store, StoreRow, Transaction
from rwkv_daemon.store.typed_rows import AttemptRow, HeldJob, JobRow, NewJob, columns_of
from rwkv_daemon.store.wall_time import now
from rwkvctl.protocol.states import TERMINAL, Reason

T = TypeVar("T")
GOING = ("queued", "starting", "generating", "grading", "judging")
"""States of jobs that end by themselves."""
OPEN = ("held", "queued", "starting", "generating", "grading", "judging", "paused", "stopping")
ACTIVE = ("starting", "generating", "grading", "judging", "stopping")
MOST_NAMED = 500
"""Values of one IN (...)."""


class SessionLabels(NamedTuple):
    """What a dispatch says of itself: the suite that it measures, and its operator's note."""

    suite: str = ""
    note: str = ""


async def add_session(
    db: Transaction, session: str, selection: str, host: str, versions: Sequence[str],
    labels: SessionLabels | None = None,
) -> None:  # fmt: skip
    """Store a dispatch: its id, flags, host, (rwkvctl version, git commit), and labels, if it has any."""
    await db.execute(
        "INSERT INTO session (id, created, selection, host, rwkvctl_version, git_commit, suite, note) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (session, now(), selection, host, *versions, *(labels or SessionLabels())),
    )


AT_ONCE = 100
"""Jobs per INSERT: ten thousand take a second so, and not six."""


async def add_jobs(db: Transaction, session: str, jobs: Sequence[NewJob]) -> list[int]:
    """Queue jobs, each as the next version of its (model, benchmark, kind); returns their numbers, in order."""
    numbers: list[int] = []
    for some in batches(jobs):
        names = (*columns_of(NewJob), "session", "queued", "version")
        one = f"({', '.join('?' * (len(names) - 1))}, 1 + COALESCE("
        one += "(SELECT MAX(version) FROM job WHERE model = ? AND benchmark = ? AND kind = ?), 0))"
        values: list[Any] = []
        for job in some:
            values += [getattr(job, name) for name in columns_of(NewJob)]
            values += [session, now(), job.model, job.benchmark, job.kind]
        sql = f"INSERT INTO job ({', '.join(names)}) VALUES {', '.join([one] * len(some))} RETURNING id"
        numbers += sorted(int(row["id"]) for row in await db.all(sql, values))
    return numbers


def batches(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    """Split jobs into pieces in which no (model, benchmark, kind) occurs twice, as the second is a version after the
    first."""
    piece: dict[tuple[str, str, str], NewJob] = {}
    for job in jobs:
        identity = (job.model, job.benchmark, job.kind)
        if identity in piece or len(piece) == AT_ONCE:
            yield list(piece.values())
            piece = {}
        piece[identity] = job
    if piece:
        yield list(piece.values())


async def add_job(db: Transaction, session: str, job: NewJob) -> int:
    """Queue one job; returns its number."""
    return (await add_jobs(db, session, [job]))[0]


class MovedMeanwhileError(Exception):
    """A job is no longer in the state from which it was to be moved, as another change came first. Nothing is
    stored."""


async def update_job(db: Transaction, job: int, *, was: str = "", **values: Any) -> None:
    """Set columns of one job, if it still is in the state `was` (empty: in any). Raises MovedMeanwhileError."""
    assert values.keys() <= set(columns_of(JobRow)), values
    assignments = ", ".join(f"{name} = ?" for name in values)
    sql, parameters = f"UPDATE job SET {assignments} WHERE id = ?", (*values.values(), job)
    if not await db.execute(f"{sql} AND state = ?" if was else sql, (*parameters, was) if was else parameters) and was:
        raise MovedMeanwhileError(f"j{job} is not {was} any more")


async def get_job(store: Store, job: int) -> JobRow | None:
    """Return a job by number; None if there is none or it was deleted."""
    row = await store.one("SELECT * FROM job WHERE id = ? AND state <> 'deleted'", (job,))
    return JobRow.of(row) if row else None


async def job_or_deleted(store: Store, job: int) -> JobRow | None:
    """Return a job by number, also one that was deleted; None if there is none."""
    row = await store.one("SELECT * FROM job WHERE id = ?", (job,))
    return JobRow.of(row) if row else None


async def jobs_in(store: Store, states: Iterable[str], *, session: str = "", limit: int = 1000) -> list[JobRow]:
    """Return jobs in queue order: highest priority first, then oldest."""
    return await state_pages(store, tuple(states), "priority DESC, id", session, limit)


async def jobs_by_id(store: Store, numbers: Iterable[int]) -> list[JobRow]:
    """Return these jobs, in any order, without deleted ones."""
    wanted = sorted(numbers)
    rows: list[StoreRow] = []
    for first in range(0, len(wanted), MOST_NAMED):
        some = wanted[first : first + MOST_NAMED]
        rows += await store.all(
            f"SELECT * FROM job WHERE id IN ({', '.join('?' * len(some))}) AND state <> 'deleted'", some
        )
    return list(map(JobRow.of, rows))


async def worked_on(store: Store) -> list[JobRow]:
    """Return jobs that a runner works on, or should; not those that wait for the judge, or to be graded again, of which
    there may be thousands."""
    rows = await store.all(
        "SELECT * FROM job WHERE state IN ('starting', 'generating', 'grading', 'stopping') "
        "AND NOT (state = 'grading' AND engine IS NULL AND wanted = '')"
    )
    return list(map(JobRow.of, rows))


async def to_grade_again(store: Store, limit: int) -> list[JobRow]:
    """Return jobs that are graded again, or wait for that, most urgent first."""
    rows = await store.all(
        "SELECT * FROM job WHERE state = 'grading' AND engine IS NULL AND wanted = '' "
        "ORDER BY priority DESC, id LIMIT ?",
        (limit,),
    )
    return list(map(JobRow.of, rows))


async def state_pages(store: Store, states: Sequence[str], order: str, session: str, limit: int) -> list[JobRow]:
    """Return jobs in these states, in an order that an index has within a state. Each state is read by its index up to
    the limit: sorting them together would read ten thousand held jobs for a page of twenty."""
    clause, parameters = session_clause(session)
    one = f"SELECT * FROM (SELECT * FROM job WHERE state = ?{clause} ORDER BY {order} LIMIT ?) AS page"
    values = [value for state in states for value in (state, *parameters, limit)]
    sql = f"{' UNION ALL '.join([one] * len(states))} ORDER BY {order} LIMIT ?"
    return [JobRow.of(row) for row in await store.all(sql, (*values, limit))]


async def jobs_to_check(store: Store) -> list[JobRow]:
    """Return finished jobs whose wrong answers the checker is to review, oldest first."""
    rows = await store.all("SELECT * FROM job WHERE checking = 'wanted' AND state = 'done' ORDER BY id LIMIT 16")
    return [JobRow.of(row) for row in rows]


async def newest_jobs(
    store: Store, states: Sequence[str] = (), *, session: str, words: Sequence[str] = (), before: int, limit: int
) -> list[JobRow]:
    """Return one page of jobs, newest first: of these states (empty: of any but `deleted`), and with each of these
    words in what a list shows of them."""
    clause, parameters = session_clause(session)
    clause += f" AND {SHOWN} LIKE ? ESCAPE '!'" * len(words)
    values = (before or 2**62, *parameters, *(f"%{escaped(word.lower())}%" for word in words))
    one = f"SELECT * FROM job WHERE {{}}id < ?{clause} ORDER BY id DESC LIMIT ?"
    if not states:
        return [JobRow.of(row) for row in await store.all(one.format("state <> 'deleted' AND "), (*values, limit))]
    page = f"SELECT * FROM ({one.format('state = ? AND ')}) AS page"
    sql = f"{' UNION ALL '.join([page] * len(states))} ORDER BY id DESC LIMIT ?"
    asked = [value for state in states for value in (state, *values, limit)]
    return [JobRow.of(row) for row in await store.all(sql, (*asked, limit))]


SHOWN: Final = (
    "LOWER('j' || id || ' ' || model || ' ' || benchmark || ' ' || kind || ' ' || session || ' ' || reason || ' ' "
    "|| detail)"
)
"""What a list shows of a job, as one text."""


def escaped(word: str) -> str:
    """Escape LIKE's wildcards in a word."""
    return "".join(f"!{char}" if char in "!%_" else char for char in word)


async def finished_jobs(store: Store, *, session: str, limit: int) -> list[JobRow]:
    """Return the jobs that ended last, newest first."""
    return await state_pages(store, tuple(sorted(TERMINAL)), "id DESC", session, limit)


async def newest_job(store: Store) -> int:
    """Return the highest job number, deleted jobs included; 0 if there is none."""
    row = await store.one("SELECT COALESCE(MAX(id), 0) AS id FROM job")
    assert row is not None
    return int(row["id"])


async def count_newer(db: Transaction, after: int) -> tuple[int, list[tuple[str, str, int]]]:
    """Return (the highest job number, (session, state, how many) of the jobs after a number). For all jobs together,
    sessions are not told apart, as an index then has all that is needed."""
    if after:
        rows = await db.all(
            "SELECT session, state, COUNT(*) AS n, MAX(id) AS id FROM job WHERE id > ? GROUP BY session, state",
            (after,),
        )
    else:
        rows = await db.all("SELECT '' AS session, state, COUNT(*) AS n, MAX(id) AS id FROM job GROUP BY state")
    found = [(row["session"], row["state"], int(row["n"])) for row in rows]
    return max((int(row["id"]) for row in rows), default=after), found


async def count_of_session(db: Transaction, session: str) -> dict[str, int]:
    """Return how many jobs of a session are in each state."""
    rows = await db.all("SELECT state, COUNT(*) AS n FROM job WHERE session = ? GROUP BY state", (session,))
    return {row["state"]: int(row["n"]) for row in rows}


def session_clause(session: str) -> tuple[str, tuple[Any, ...]]:
    return (" AND session = ?", (session,)) if session else ("", ())


async def counts(store: Store, session: str) -> dict[str, int]:
    """Count the jobs of a session (empty: of all) in each state now, without deleted ones."""
    clause, parameters = session_clause(session)
    rows = await store.all(
        f"SELECT state, COUNT(*) AS n FROM job WHERE state <> 'deleted'{clause} GROUP BY state ORDER BY state",
        parameters,
    )
    return {row["state"]: row["n"] for row in rows}


async def held_page(store: Store, after: int, limit: int) -> list[HeldJob]:
    """Return held jobs by number, from one on."""
    sql = f"SELECT {', '.join(HeldJob._fields)} FROM job WHERE state = 'held' AND id > ? ORDER BY id LIMIT ?"
    return [HeldJob(*row) for row in await store.all(sql, (after, limit))]


async def held_checkpoints(store: Store) -> dict[str, str]:
    """Return path -> model name for every checkpoint that a held job is to measure."""
    rows = await store.all(
        "SELECT weights_path, MAX(model) AS model FROM job WHERE state = 'held' GROUP BY weights_path"
    )
    return {row["weights_path"]: row["model"] for row in rows}


class Twin(NamedTuple):
    """Another job that does the same work (one grade key): its id, its model's name, and whether it has the score."""

    job: str
    model: str
    done: bool

    @property
    def told(self) -> str:
        """Return the note beside the job that has this twin."""
        if self.done:
            return f"uses the score of {self.job} ({self.model}), which did the same work"
        return f"waits for {self.job} ({self.model}), which does the same work, and will use its score"


async def who_does(store: Store, generation_key: str, grade_key: str, job: int) -> Twin | None:
    """Return the newest other job that has the score of this work; else the oldest that will have it without an
    operator's help."""
    done = await store.one(
        "SELECT j.id, j.model FROM job j JOIN score s ON s.job = j.id AND s.grade_key = ? "
        "WHERE j.generation_key = ? ORDER BY j.id DESC LIMIT 1",
        (grade_key, generation_key),
    )
    if done is not None:
        return Twin(f"j{done['id']}", done["model"], done=True)
    places = ", ".join("?" * len(GOING))
    twin = await store.one(
        f"SELECT id, model FROM job WHERE grade_key = ? AND state IN ({places}) AND id <> ? ORDER BY id LIMIT 1",
        (grade_key, *GOING, job),
    )
    return None if twin is None else Twin(f"j{twin['id']}", twin["model"], done=False)


async def paths_of_model(store: Store, model: str) -> list[str]:
    """Return the paths of all checkpoints that jobs measured under this name."""
    rows = await store.all("SELECT DISTINCT weights_path FROM job WHERE model = ? AND state <> 'deleted'", (model,))
    return [row["weights_path"] for row in rows]


async def known_hashes(store: Store) -> tuple[int, int]:
    """Return two numbers that change when weights are hashed, fail to load, or have their failures reset."""
    row = await store.one("SELECT COUNT(*) AS n, COALESCE(SUM(load_failures), 0) AS failures FROM weights")
    assert row is not None
    return int(row["n"]), int(row["failures"])


class KnownJob(NamedTuple):
    """The columns of an unfinished job that a plan needs."""

    id: int
    model: str
    weights_path: str
    benchmark: str
    kind: str
    state: str
    reason: str
    grade_key: str
    settings: str
    row_limit: int | None
    numerics: str
    done: int
    total: int
    weights_inodes: str

    @property
    def name(self) -> str:
        return f"j{self.id}"


def pieces(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split values into pieces small enough for one SQL `IN (...)` (`MOST_NAMED`)."""
    return (values[first : first + MOST_NAMED] for first in range(0, len(values), MOST_NAMED))


async def scored_work(store: Store, generation_keys: Sequence[str]) -> dict[str, str]:
    """Return grade key -> the newest job with its score, for work with these generation keys."""
    found: dict[str, str] = {}
    for some in pieces(generation_keys):
        rows = await store.all(
            "SELECT s.grade_key, MAX(s.job) AS job FROM job j JOIN score s ON s.job = j.id "
            f"WHERE j.generation_key IN ({', '.join('?' * len(some))}) GROUP BY s.grade_key",
            some,
        )
        found |= {row["grade_key"]: f"j{row['job']}" for row in rows}
    return found


async def unfinished_work(store: Store, grade_keys: Sequence[str]) -> list[KnownJob]:
    """Return the unfinished jobs with these keys: those that go on by themselves last, oldest first."""
    found: list[KnownJob] = []
    for some in pieces(grade_keys):
        rows = await store.all(
            f"SELECT {', '.join(KnownJob._fields)} FROM job WHERE grade_key IN ({', '.join('?' * len(some))}) "
            "AND state NOT IN ('done', 'deleted')",
            some,
        )
        found += [KnownJob(*row) for row in rows]
    return sorted(found, key=lambda job: (job.state in OPEN, job.id))


async def keyless_work(store: Store, pairs: Sequence[tuple[str, str, str]]) -> list[KnownJob]:
    """Return the unfinished jobs without a key, for these (path of the weights, benchmark, kind), oldest first."""
    found: list[KnownJob] = []
    for some in pieces(pairs):
        rows = await store.all(
            f"SELECT {', '.join(f'job.{name}' for name in KnownJob._fields)} "
            f"FROM (VALUES {', '.join(['(?, ?, ?)'] * len(some))}) AS pair "
            "JOIN job ON job.weights_path = pair.column1 AND job.benchmark = pair.column2 AND job.kind = pair.column3 "
            "WHERE LENGTH(job.grade_key) = 0 AND job.state NOT IN ('done', 'deleted')",
            [value for pair in some for value in pair],
        )
        found += [KnownJob(*row) for row in rows]
    return sorted(found)


async def generated_work(store: Store, generation_keys: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return generation key -> kind -> the newest job that generated it completely, for these keys."""
    found: dict[str, dict[str, str]] = {}
    for some in pieces(generation_keys):
        rows = await store.all(
            "SELECT generation_key, kind, MAX(id) AS job FROM job "
            f"WHERE generation_key IN ({', '.join('?' * len(some))}) AND state = 'done' "
            "AND stages_done >= stages * total AND total > 0 AND numerics <> 'imported' "
            "GROUP BY generation_key, kind ORDER BY job",
            some,
        )
        for row in rows:
            found.setdefault(row["generation_key"], {})[row["kind"]] = f"j{row['job']}"
    return found


async def generation_keys(store: Store, wanted: Sequence[str]) -> set[str]:
    """Return which of these generation keys jobs have."""
    found: set[str] = set()
    for some in pieces(wanted):
        rows = await store.all(
            f"SELECT DISTINCT generation_key FROM job WHERE generation_key IN ({', '.join('?' * len(some))})", some
        )
        found |= {row["generation_key"] for row in rows}
    return found


async def add_attempt(db: Transaction, job: int, number: int, uuid: str) -> None:
    """Add an attempt whose runner is about to be started."""
    await db.execute(
        "INSERT INTO attempt (job, number, uuid, state, started) VALUES (?, ?, ?, 'running', ?)",
        (job, number, uuid, now()),
    )


async def end_attempt(
    db: Transaction, job: int, number: int, *, code: int | None, signal: int | None, lost: bool
) -> None:
    """Store the end of a runner: with its exit, or lost without one."""
    await db.execute(
        "UPDATE attempt SET state = ?, ended = ?, code = ?, signal = ? WHERE job = ? AND number = ?",
        ("lost" if lost else "ended", now(), code, signal, job, number),
    )


async def attempts_of(store: Store, job: int) -> list[AttemptRow]:
    """Return every attempt of a job, oldest first."""
    rows = await store.all("SELECT * FROM attempt WHERE job = ? ORDER BY number", (job,))
    return [AttemptRow.of(row) for row in rows]


async def running_attempts(store: Store) -> list[AttemptRow]:
    """Return attempts that were running when the daemon last checked, including those that could not be ended."""
    rows = await store.all("SELECT * FROM attempt WHERE state IN ('running', 'stuck') ORDER BY job")
    return [AttemptRow.of(row) for row in rows]


async def remember_reply(db: Transaction, request_id: str, reply: bytes) -> None:
    """Store the reply to a changing request, for a client that repeats it."""
    if request_id:
        await db.execute("INSERT INTO request VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (request_id, now(), reply))


async def remembered_reply(store: Store, request_id: str) -> bytes | None:
    """Return the stored reply to this request id, or None."""
    row = await store.one("SELECT reply FROM request WHERE id = ?", (request_id,)) if request_id else None
    return bytes(row["reply"]) if row else None


async def forget_replies(db: Transaction, before: str) -> int:
    """Delete replies that were given before a time; returns how many."""
    return await db.execute("DELETE FROM request WHERE at < ?", (before,))


async def sha256_of(store: Store, identity: tuple[int, int, int, int]) -> tuple[str, str]:
    """Return (sha256, why it does not load) of a file by (device, inode, size, changed_ns); empty if not hashed yet."""
    row = await store.one(
        "SELECT sha256, broken FROM weights WHERE device = ? AND inode = ? AND size = ? AND changed_ns = ?", identity
    )
    return (row["sha256"], row["broken"]) if row else ("", "")


async def known_weights(store: Store) -> dict[tuple[int, int, int, int], tuple[str, str]]:
    """Return (device, inode, size, changed_ns) -> (sha256, why it does not load) for every hashed file."""
    rows = await store.all("SELECT device, inode, size, changed_ns, sha256, broken FROM weights")
    return {(row[0], row[1], row[2], row[3]): (row["sha256"], row["broken"]) for row in rows}


async def hashes(store: Store) -> dict[tuple[int, int, int, int], str]:
    """Return (device, inode, size, changed_ns) -> sha256 for every hashed file."""
    rows = await store.all("SELECT device, inode, size, changed_ns, sha256 FROM weights")
    return {(row["device"], row["inode"], row["size"], row["changed_ns"]): row["sha256"] for row in rows}


async def remember_sha256(
    db: Transaction, identity: tuple[int, int, int, int], sha256: str, path: str, name: str, problem: str = ""
) -> None:
    """Store a file's hash, why it is no checkpoint that can be run, and the model."""
    await db.execute(
        "INSERT INTO weights (device, inode, size, changed_ns, sha256, path, problem) VALUES (?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (device, inode, size, changed_ns) DO UPDATE SET sha256 = excluded.sha256, path = excluded.path, "
        "problem = excluded.problem, broken = '', load_failures = 0",
        (*identity, sha256, path, problem),
    )
    values = (sha256, name, path, identity[2], now())
    await db.execute("INSERT INTO model VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", values)


async def count_load_failure(db: Transaction, sha256: str, detail: str) -> int:
    """Count a failed load of these weights; from the second on they count as broken. Returns how many."""
    await db.execute(
        "UPDATE weights SET load_failures = load_failures + 1, "
        "broken = CASE WHEN load_failures >= 1 THEN ? ELSE broken END WHERE sha256 = ?",
        (detail, sha256),
    )
    row = await db.one("SELECT COALESCE(MAX(load_failures), 0) AS n FROM weights WHERE sha256 = ?", (sha256,))
    return int(row["n"]) if row else 0


async def forget_load_failures(db: Transaction, sha256: str) -> None:
    """Reset the load failures of these weights: they did load, or the operator resumes a job of them."""
    await db.execute("UPDATE weights SET load_failures = 0, broken = '' WHERE sha256 = ?", (sha256,))


async def remember_benchmark(db: Transaction, values: Sequence[Any]) -> None:
    """Store (rows sha256, name, version, split, rows, licence, source) of a row set that is about to be measured."""
    await db.execute("INSERT INTO benchmark VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", tuple(values))


as_json: Final[Callable[[object], str]] = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Encodes a nested value as the store does."""


async def any_job(store: Store) -> int | None:
    """Return the number of one job, whichever; None if there is none."""
    row = await store.one("SELECT id FROM job LIMIT 1")
    return None if row is None else int(row["id"])


async def count_jobs(store: Store | Transaction) -> int:
    """Return how many jobs there are, deleted ones included."""
    row = await store.one("SELECT COUNT(*) AS jobs FROM job")
    return int(row["jobs"]) if row else 0


async def job_numbers(store: Store) -> set[int]:
    """Return the number of every job, of deleted ones too."""
    return {row["id"] for row in await store.all("SELECT id FROM job")}


async def last_attempts(store: Store) -> dict[int, int]:
    """Return the number of the last attempt of every job."""
    return {row["id"]: row["attempt"] for row in await store.all("SELECT id, attempt FROM job")}


async def work_of(db: Transaction, job: int) -> tuple[int, str]:
    """Return the version of a job, and its grade key."""
    row = await db.one("SELECT version, grade_key FROM job WHERE id = ?", (job,))
    assert row is not None
    return row["version"], row["grade_key"]


async def checkpoints_held_for(store: Store, reasons: Sequence[Reason]) -> dict[str, str]:
    """Return the paths of checkpoints that jobs are held for, for one of these reasons; with the files as they were
    shown."""
    rows = await store.all(
        "SELECT weights_path, MIN(weights_inodes) AS shown FROM job "
        f"WHERE state = 'held' AND reason IN ({', '.join('?' * len(reasons))}) GROUP BY weights_path",
        reasons,
    )
    return {row["weights_path"]: row["shown"] for row in rows}
