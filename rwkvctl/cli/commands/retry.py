"""`rwkvctl retry`: run failed jobs again from where they stopped."""

from rwkvctl.cli import bulk_changes
from rwkvctl.cli.confirm import named
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb


@verb
def retry(context: Context, jobs: list[str] = [], *, session_id: str = "", all_: bool = False) -> int:  # noqa: B006
    """Retry failed jobs; they continue where they stopped.

    jobs: ids of jobs; `-` takes them from standard input
    session_id: every failed job of this session
    all_: every failed job

    $ rwkvctl retry j12
    $ rwkvctl jobs --state failed | rwkvctl retry -
    """
    if bool(jobs) + bool(session_id) + all_ != 1:
        raise UsageError(
            "rwkvctl retry: name jobs, or one of --session-id and --all; see `rwkvctl jobs --state failed`."
        )
    body = {"jobs": named(jobs), "session": session_id, "all": all_, "failed": True}
    return bulk_changes.show(context, bulk_changes.change_all(context, "/v1/resume", body))
