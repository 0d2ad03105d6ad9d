"""The order of checkpoints by age. Pure: from what their names say, and when each was first measured."""

from collections.abc import Callable, Container, Mapping, Sequence

import msgspec

from rwkv_weights.local import file_names
from rwkvctl.protocol.views import ModelView


def with_lineage(
    found: Sequence[ModelView], scored: Mapping[str, int], pinned: Callable[[str], str] = lambda _model: "",
    given: Container[str] = (),
) -> list[ModelView]:  # fmt: skip
    """Return the checkpoints and every scored model (`scored` maps names to the number of the first scored job), each
    with its scored predecessor: of its size, or of unknown size, by data version, then date, then which was measured
    first; and with the baseline that is `pinned` for it. Models whose scores were `given` come before or after none."""
    known = {view.name for view in found}
    every = [*found, *(by_name(name) for name in scored if name not in known)]
    ordered = sorted(every, key=lambda view: (*made(view), scored.get(view.name, float("inf")), view.name))
    measured = {name: job for name, job in scored.items() if name not in given}
    return [
        msgspec.structs.replace(
            view,
            previous="" if view.name in given else before(view, ordered[:place], measured),
            baseline=pinned(view.name),
        )
        for place, view in enumerate(ordered)
    ]


def by_name(name: str) -> ModelView:
    """Return a model whose file is not under the weights folder, with what its name says."""
    read = file_names.parse(name)
    return ModelView(
        name=name,
        path="",
        size_bytes=0,
        architecture=read.architecture,
        data_version=read.version,
        parameters_b=read.size_b,
        date=read.date,
        context=read.context,
    )


def made(view: ModelView) -> tuple[object, str]:
    """Return the sort key from older to newer: data version, then date."""
    return file_names.natural(view.data_version), view.date


def before(view: ModelView, older: Sequence[ModelView], scored: Mapping[str, int]) -> str:
    """Return the name of the last scored one of its size among older ones; empty if there is none, or if the model is
    behind an endpoint."""
    sizes = {view.parameters_b, None}
    earlier = (one for one in reversed(older) if one.parameters_b in sizes and not one.api)
    return "" if view.api else next((one.name for one in earlier if one.name in scored), "")
