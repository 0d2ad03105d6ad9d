"""Models behind endpoints in a selection: what has to be known of them before it is planned, and which are refused."""

from collections.abc import Iterable

from rwkv_daemon.changes.records import Records
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.rules.plan import Grid, ModelFact, SelectionError
from rwkv_daemon.scheduling.endpoint_models import EndpointModels
from rwkv_daemon.store.queries.jobs import paths_of_model


def to_be_tried(endpoints: EndpointModels, planned: Grid) -> list[RemoteModel]:
    """Return the models of a plan that are to compare log-probabilities while it is not known whether they give
    any."""
    if not any(kind.chooses for kind in planned.kinds):
        return []
    unknown = (model.name for model in planned.models if model.api == "completions" and model.logprobs is None)
    return [endpoints.by_name[name] for name in unknown]


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
