"""The device that an engine is told to run on."""

import pytest
import torch

from rwkv_engine.serving.process import ServeError, device_of


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(("name", "index"), [("", 0), ("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)])
def test_a_gpu_has_a_number_without_which_torch_does_not_select_it(name: str, index: int) -> None:
    assert device_of(name) == torch.device("cuda", index)


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    with pytest.raises(ServeError, match=r"there is no cuda:2: torch \S+ sees 2 GPUs here"):
        device_of("cuda:2")


def test_without_a_gpu_it_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("") == device_of("cpu") == torch.device("cpu")
