"""Which services belong to the models of a configuration."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rwkv_daemon.jobs import endpoint_jobs
from rwkv_daemon.remote.probe import ProbeError
from rwkv_daemon.remote.remote_model import RemoteModel
from rwkv_daemon.remote.server_reply import NOTHING
from rwkv_daemon.scheduling.endpoint_models import EndpointModels
from rwkvctl.settings import config


@pytest.fixture
def records(tmp_path: Path) -> Any:
    return SimpleNamespace(store=None, config=SimpleNamespace(socket=tmp_path / "daemon.sock", home=tmp_path))


async def test_a_service_that_has_stopped_is_replaced_and_no_model_is_missing_meanwhile(
    kit: Any, server: Any, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs whose model is missing are held."""
    endpoints = EndpointModels()
    there: list[set[str]] = []

    async def spent(*_: object) -> Any:
        there.append(set(endpoints.by_name))
        return NOTHING

    monkeypatch.setattr(endpoint_jobs, "spent", spent)
    monkeypatch.setattr(config, "endpoint_models", lambda: {"qwq": kit.settings(server)})
    await endpoint_jobs.open_models(records, endpoints)
    first = endpoints.by_name["qwq"]
    await endpoint_jobs.open_models(records, endpoints)
    assert endpoints.by_name["qwq"] is first
    first.stop()
    await endpoint_jobs.open_models(records, endpoints)
    assert endpoints.by_name["qwq"] is not first
    assert there == [set(), {"qwq"}]


async def test_one_model_over_two_apis_is_tried_out_over_each(
    kit: Any, server: Any, socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def probe(_: object) -> Any:
        raise ProbeError("away")

    monkeypatch.setattr(RemoteModel, "probe", probe)
    chat, plain = (
        RemoteModel(kit.settings(server, api=api), kit.MemoryCache(), socket_path) for api in ("chat", "completions")
    )
    endpoints = EndpointModels({"chat": chat, "plain": plain})
    await endpoints.try_out([chat])
    assert endpoints.untried() == [plain]
    assert "away" in endpoints.why_not_asked(chat)
    assert endpoints.why_not_asked(plain) == "its server is being tried out"
