"""How long the questions to the writer and its replies are: those about samples and those about rows differ by far."""

from collections.abc import Callable
from typing import Final

from rwkv_daemon.store.interface import Store
from rwkv_daemon.store.typed_rows import JobRow
from rwkvctl.protocol.endpoints import WRITER, path_of

JOBS_READ: Final = 100


async def mean_reply(store: Store, of: Callable[[JobRow], bool]) -> tuple[float, float] | None:
    """Return the mean tokens of the (questions, replies) of the newest of the writer's jobs that are meant; None if
    none of the latest has some. A reply that was read at its second try counts once."""
    rows = await store.all(
        "SELECT * FROM job WHERE model = ? AND weights_path = ? AND stages_done > 0 AND state <> 'deleted' "
        "ORDER BY id DESC LIMIT ?",
        (WRITER, path_of(WRITER), JOBS_READ),
    )
    for job in filter(of, map(JobRow.of, rows)):
        row = await store.one(
            "SELECT AVG(prompt_tokens) AS prompt, AVG(generated_tokens) AS reply FROM completion "
            "WHERE job = ? AND prompt_tokens > 0",  # what was converted needed no call
            (job.id,),
        )
        if row is not None and row["prompt"] is not None:
            return float(row["prompt"]), float(row["reply"])
    return None
