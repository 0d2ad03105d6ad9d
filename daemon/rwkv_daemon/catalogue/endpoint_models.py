"""The models behind endpoints, as facts for the planner and for lists."""

from collections.abc import Iterable, Mapping

from rwkv_daemon.changes.records import Records
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.rules.plan import Grid, ModelFact, SelectionError
from rwkv_daemon.store.queries.jobs import paths_of_model
from rwkvctl.protocol.views import ModelView


def facts(endpoints: Mapping[str, RemoteModel]) -> list[ModelFact]:
    """Return the models of the configuration as the planner sees them."""
    return [
        ModelFact(
            name=name,
            path=remote.config.path,
            sha256=remote.config.identity,
            api=remote.config.api,
            logprobs=remote.features.no_logprobs if remote.features is not None else None,
        )
        for name, remote in endpoints.items()
    ]


def views(endpoints: Mapping[str, RemoteModel]) -> list[ModelView]:
    """Return the models as `rwkvctl models` shows them."""
    return [
        ModelView(name=fact.name, path=fact.path, size_bytes=0, sha256=fact.sha256, api=fact.api or "")
        for fact in facts(endpoints)
    ]


def to_be_tried(endpoints: Mapping[str, RemoteModel], planned: Grid) -> list[RemoteModel]:
    """Return the models of a plan that are to compare log-probabilities while it is not known whether they give
    any."""
    if not any(kind.chooses for kind in planned.kinds):
        return []
    names = [model.name for model in planned.models if model.api == "completions" and model.logprobs is None]
    return [endpoints[name] for name in names]


async def refuse_names_of_checkpoints(records: Records, models: Iterable[ModelFact]) -> None:
    """Raise SelectionError for a model behind an endpoint if a checkpoint was measured under its name: its scores would
    look like those of a new version."""
    for model in models:
        others = await paths_of_model(records.store, model.name) if model.api else []
        if taken := next((path for path in others if path != model.path), ""):
            raise SelectionError(
                f"{model.path}: {taken} was measured under the name {model.name}, and their scores could not be told "
                "apart; rename the table of the endpoint in config.toml."
            )
