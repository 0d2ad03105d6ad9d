"""Settings that one dispatch may override: `--set cot.temperature=0.5 --set k=4`.

A setting of a stage is called STAGE.NAME; where only one stage generates, it is shown as the bare NAME, and both forms
mean it.
"""

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from msgspec.structs import replace as replace_fields

from rwkv_data.definition.errors import SettingError
from rwkv_data.definition.few_shot import FewShot
from rwkv_data.definition.grader import Grader
from rwkv_data.definition.row_selection import PARTS, Part
from rwkv_data.definition.sampling_search import MOST_POINTS, Search, with_grid
from rwkv_data.definition.stage import Stage

Value: TypeAlias = int | float | str
Stages: TypeAlias = tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class _Number:
    """Type and inclusive bounds of a numeric setting."""

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
    """Return every setting of the stages that generate, with its present value."""
    generating = _generating(stages)
    values: dict[str, Value] = {}
    for stage in generating:
        prefix = f"{stage.name}." if len(generating) > 1 else ""
        values |= {prefix + name: getattr(stage.sampling, name) for name in _OF_SAMPLING}
    return values


def of_search(search: Search) -> dict[str, Value]:
    """Return the settings of a search: the values of its grid, its rungs, and the share of points that go on."""
    grid: dict[str, Value] = {f"grid.{name}": ",".join(search.grid.get(name, ())) for name in _OF_SAMPLING}
    return grid | {"rungs": ",".join(map(str, search.rungs)), "keep": search.keep}


def with_grading(grader: Grader, name: str, text: str) -> Grader:
    """Return the grader with one setting (a known one) replaced."""
    if name == "workers":
        return replace(grader, workers=int(parse(_OF_KIND[name], name, text)))
    return replace(grader, options={**grader.options, name: parse(_OPTION, name, text)})


def with_setting(stages: Stages, name: str, text: str) -> Stages:
    """Return the stages with one setting (a known one) replaced."""
    target, _, field = name.rpartition(".")
    value = parse(_OF_SAMPLING[field], name, text)
    target = target or _generating(stages)[0].name
    return tuple(_with(stage, field, value) if stage.name == target else stage for stage in stages)


def full_name(stages: Stages, name: str, known: Mapping[str, Value]) -> str:
    """Return the name as `known` has it: `answer.top_p` is `top_p` where only that stage generates. Raises SettingError
    for an unknown one."""
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
    """Return a value from its text. Raises SettingError if it is no number or out of bounds."""
    word = "a whole number" if number.convert is int else "a number"
    try:
        value = number.convert(text)
    except ValueError:
        raise SettingError(f"{name}={text!r} is not {word}") from None
    if not number.low <= value <= number.high:
        raise SettingError(f"{name}={text} is not {word} from {number.low:.10g} to {number.high:.10g}")
    return value


def of_kind(name: str, text: str) -> int | float:
    """Return the value of a numeric setting of the kind itself."""
    return parse(_OF_KIND[name], name, text)


def repeats(text: str) -> int | float:
    """Return the number of samples a row, or below 1 the share of the rows that is asked once."""
    try:
        below_one = 0 < float(text) < 1
    except ValueError:
        below_one = False
    return parse(_SHARE if below_one else _OF_KIND["k"], "k", text)


def part(text: str) -> Part:
    """Return the part of the rows that is asked. Raises SettingError for an unknown one."""
    for known in PARTS:
        if text == known:
            return known
    raise SettingError(f"part={text!r} is none of {', '.join(PARTS)}")


def with_few_shot(shots: FewShot, name: str, text: str) -> FewShot:
    """Return the few-shot examples with their number or seed replaced."""
    value = int(of_kind(name, text))
    if name == "shot_seed":
        return replace(shots, seed=value)
    if shots.fixed and value > len(shots.fixed):
        raise SettingError(f"shots={value}, but this profile has {len(shots.fixed)} fixed examples")
    return replace(shots, count=value)


def with_search(search: Search, name: str, text: str) -> Search:
    """Return the search with its grid, rungs or share replaced."""
    if name == "keep":
        search = replace(search, keep=float(parse(_SHARE, name, text)))
    elif name == "rungs":
        search = replace(search, rungs=tuple(int(parse(_RUNG, name, rung)) for rung in text.split(",")))
    else:
        field = name.removeprefix("grid.")
        number = _OF_SAMPLING[field]
        values = tuple(dict.fromkeys(_canonical(parse(number, name, value)) for value in with_grid(text, name)))
        search = replace(search, grid={**search.grid, field: values})
    if (points := points_of(search)) > MOST_POINTS:
        raise SettingError(f"the grid has {points} points; {MOST_POINTS} are the most")
    return search


def points_of(search: Search) -> int:
    """Return how many points the grid of a search has."""
    return math.prod(len(values) for values in search.grid.values())


def _canonical(value: float) -> str:
    """Return one text for a value, however it was written, because it enters the key."""
    return str(int(value)) if value == int(value) else repr(value)


def _with(stage: Stage, field: str, value: Value) -> Stage:
    return replace(stage, sampling=replace_fields(stage.sampling, **{field: value}))


def _generating(stages: Stages) -> list[Stage]:
    return [stage for stage in stages if stage.mode == "generate"]
