"""`rwkvctl scores`."""

from rwkvctl import views
from rwkvctl.context import Context
from rwkvctl.protocol.errors import Exit
from rwkvctl.verbs import verb


@verb
def scores(
    context: Context, *, model: str = "", benchmark: str = "", session_id: str = "", all_versions: bool = False,
    limit: int = 1000,
) -> int:  # fmt: skip
    """Scores with their 95 % confidence intervals and what qualifies them.

    Each score says how many samples it rests on, how many were cut off at the token limit, gave no answer, or met an
    error, and what guessing would give. Where no number can be given, the reason stands in its place.

    model: only this model
    benchmark: only this benchmark
    session_id: only the scores of this session
    all_versions: every version, not only the newest
    limit: so many scores at most

    $ rwkvctl scores
    $ rwkvctl scores --benchmark gsm8k --all-versions --json
    """
    answer = context.client.get(
        "/v1/scores",
        model=model,
        benchmark=benchmark,
        session=session_id,
        all_versions=all_versions or None,
        limit=limit,
    )
    context.show(answer, views.scores(answer.value["items"]))
    return Exit.OK
