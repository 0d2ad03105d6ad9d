"""Settings that one dispatch may override: `--set cot.temperature=0.5 --set k=4`.

A setting of a stage is called STAGE.NAME; where only one stage generates, it is shown as the bare NAME, and both forms
mean it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace as replace_fields

from rwkv_data.definition import row_window
from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.row_selection import PARTS, Part
from rwkv_data.definition.sampling_search import MOST_POINTS, Search, with_grid
from rwkv_data.definition.stage import Stage

if TYPE_CHECKING:
    from rwkv_data.definition.kind import Kind

Value: TypeAlias = int | float | str
Stages: TypeAlias = tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class _Number:
    """A number within bounds."""

    convert: Callable[[str], int | float]
    low: float
    high: float


_OF_SAMPLING = {
    "max_tokens": _Number(int, 1, 1_048_576),
    "temperature": _Number(float, 0, 1000),
    "top_k": _Number(int, 0, 1_048_576),
    "top_p": _Number(float, 0, 1),
    "presence": _Number(float, -100, 100),
    "frequency": _Number(float, -100, 100),
    "decay": _Number(float, 0, 1),
}
_SEED = _Number(int, 0, 2**63 - 1)
_SHARE = _Number(float, 0.0001, 1)
_OF_KIND = {
    "k": _Number(int, 1, 4096),
    "seed": _SEED,
    "shots": _Number(int, 0, 1000),
    "shot_seed": _SEED,
    "attempts": _Number(int, 0, 10**9),
    "max_runtime_s": _Number(float, 0, 10**9),
    "workers": _Number(int, 1, 1024),
}
_RUNG = _Number(int, 1, 10**9)
_OPTION = _Number(float, 0, 10**6)


def of_stages(stages: Stages) -> dict[str, Value]:
    """Every setting of the stages that generate, with its present value."""
    generating = _generating(stages)
    values: dict[str, Value] = {}
    for stage in generating:
        prefix = f"{stage.name}." if len(generating) > 1 else ""
        values |= {prefix + name: getattr(stage.sampling, name) for name in _OF_SAMPLING}
    return values


def of_search(search: Search) -> dict[str, Value]:
    """The settings of a search: the values of its grid, its rungs, and the share that goes on."""
    grid: dict[str, Value] = {f"grid.{name}": ",".join(search.grid.get(name, ())) for name in _OF_SAMPLING}
    return grid | {"rungs": ",".join(map(str, search.rungs)), "keep": search.keep}


def applied(kind: Kind, name: str, text: str) -> Kind:
    """The kind with one setting (a known one, by its full name) replaced."""
    if name == "k":
        return kind.with_repeats(_repeats(text))
    if name == "part":
        return replace(kind, part=_part(text))
    if name in {"shots", "shot_seed"}:
        return _with_shots(kind, name, int(parse(_OF_KIND[name], name, text)))
    if name == "max_runtime_s":
        return replace(kind, max_runtime_s=parse(_OF_KIND[name], name, text))
    if name == "seed":
        return replace(kind, seed=int(parse(_SEED, name, text)))
    if name == "attempts":
        return replace(kind, attempts=int(parse(_OF_KIND[name], name, text)))
    if name == "workers" or name in kind.grader.options:
        return replace(kind, grader=_with_grading(kind.grader, name, text))
    if kind.window and name in row_window.SETTINGS:
        return replace(kind, window=kind.window.with_setting(name, text))
    if kind.search and (name.startswith("grid.") or name in {"rungs", "keep"}):
        return _with_search(kind, kind.search, name, text)
    return replace(kind, stages=with_setting(kind.stages, name, text))


def _with_grading(grader: Grader, name: str, text: str) -> Grader:
    if name == "workers":
        return replace(grader, workers=int(parse(_OF_KIND[name], name, text)))
    return replace(grader, options={**grader.options, name: parse(_OPTION, name, text)})


def with_setting(stages: Stages, name: str, text: str) -> Stages:
    """The stages with one setting (a known one) replaced."""
    target, _, field = name.rpartition(".")
    value = parse(_OF_SAMPLING[field], name, text)
    target = target or _generating(stages)[0].name
    return tuple(_with(stage, field, value) if stage.name == target else stage for stage in stages)


def full_name(stages: Stages, name: str, known: Mapping[str, Value]) -> str:
    """The name as `known` has it: `answer.top_p` is `top_p` where only that stage generates. Refuses unknown ones."""
    found = _bare(stages, name)
    if found not in known:
        near = [one for one in known if one.endswith(f".{name}")] or difflib.get_close_matches(name, known, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known)}"
        raise SettingError(f"there is no setting {name!r} here; {hint}")
    return found


def has(stages: Stages, name: str, known: Mapping[str, Value]) -> bool:
    """Whether a setting of that name, in either form, is among the known ones."""
    return _bare(stages, name) in known


def _bare(stages: Stages, name: str) -> str:
    stage, _, field = name.rpartition(".")
    return field if stage and [stage] == [one.name for one in _generating(stages)] else name


def parse(number: _Number, name: str, text: str) -> int | float:
    """A value from its text, or a SettingError."""
    word = "a whole number" if number.convert is int else "a number"
    try:
        value = number.convert(text)
    except ValueError:
        raise SettingError(f"{name}={text!r} is not {word}") from None
    if not number.low <= value <= number.high:
        raise SettingError(f"{name}={text} is not {word} from {number.low:.10g} to {number.high:.10g}")
    return value


def _repeats(text: str) -> int | float:
    """Samples a row, or below 1 the share of the rows that is asked once."""
    try:
        below_one = 0 < float(text) < 1
    except ValueError:
        below_one = False
    return parse(_SHARE if below_one else _OF_KIND["k"], "k", text)


def _part(text: str) -> Part:
    for part in PARTS:
        if text == part:
            return part
    raise SettingError(f"part={text!r} is none of {', '.join(PARTS)}")


def _with_shots(kind: Kind, name: str, value: int) -> Kind:
    shots = kind.shots
    assert shots is not None, "only kinds with examples have settings of examples"
    if name == "shot_seed":
        return replace(kind, shots=replace(shots, seed=value))
    if shots.fixed and value > len(shots.fixed):
        raise SettingError(f"shots={value}, but this profile has {len(shots.fixed)} fixed examples")
    return replace(kind, shots=replace(shots, count=value))


def _with_search(kind: Kind, search: Search, name: str, text: str) -> Kind:
    if name == "keep":
        search = replace(search, keep=float(parse(_SHARE, name, text)))
    elif name == "rungs":
        search = replace(search, rungs=tuple(int(parse(_RUNG, name, rung)) for rung in text.split(",")))
    else:
        field = name.removeprefix("grid.")
        number = _OF_SAMPLING[field]
        values = tuple(dict.fromkeys(_canonical(parse(number, name, value)) for value in with_grid(text, name)))
        search = replace(search, grid={**search.grid, field: values})
    points = math.prod(len(values) for values in search.grid.values())
    if points > MOST_POINTS:
        raise SettingError(f"the grid has {points} points; {MOST_POINTS} are the most")
    return replace(kind, search=search, repeats=points)


def _canonical(value: float) -> str:
    """One text for a value, whatever it was written as: it enters the key."""
    return str(int(value)) if value == int(value) else repr(value)


def _with(stage: Stage, field: str, value: Value) -> Stage:
    return replace(stage, sampling=replace_fields(stage.sampling, **{field: value}))


def _generating(stages: Stages) -> list[Stage]:
    return [stage for stage in stages if stage.mode == "generate"]
