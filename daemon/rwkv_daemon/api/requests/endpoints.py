"""Requests about models behind endpoints, and their answers."""

import msgspec

from rwkv_daemon.api.requests.judge_review import judge_view
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.scheduling.endpoint_models import EndpointModels, kind_of
from rwkvctl.protocol.replies import EndpointsReply
from rwkvctl.protocol.views import EndpointView


def state(endpoints: EndpointModels) -> EndpointsReply:
    """Return every model behind an endpoint, and how it is doing."""
    return EndpointsReply(items=tuple(view(endpoints, remote) for remote in endpoints.by_name.values()))


def view(endpoints: EndpointModels, remote: RemoteModel) -> EndpointView:
    """Return one model; its keys are masked."""
    return EndpointView(
        name=remote.config.name,
        base_url=remote.config.server.base_url,
        model=remote.config.service.model,
        revision=remote.config.revision,
        api=remote.config.api,
        identity=remote.config.identity,
        features=msgspec.to_builtins(remote.features) if remote.features is not None else {},
        problem=endpoints.problems.get(kind_of(remote), ""),
        service=judge_view("endpoint", remote.stats()),
    )


def retry(endpoints: EndpointModels) -> EndpointsReply:
    """Answer `POST /v1/endpoints/retry`: let every model try its keys again at once, and have every server tried out
    again when a job waits for it."""
    for remote in endpoints.by_name.values():
        remote.revive()
    endpoints.forget()
    return state(endpoints)
