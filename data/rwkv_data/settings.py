"""Settings that one dispatch may override: `--set cot.temperature=0.5 --set k=4`.

A setting of a stage is called STAGE.NAME; where only one stage generates, it is shown as the bare NAME, and both forms
mean it. What only scores choices has nothing to set.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from msgspec.structs import replace as replace_fields

from rwkv_data.errors import SettingError
from rwkv_data.stage import Stage

Value: TypeAlias = int | float
Stages: TypeAlias = tuple[Stage, ...]


@dataclass(frozen=True, slots=True)
class _Number:
    """A number within bounds."""

    convert: Callable[[str], Value]
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
_OF_KIND = {"k": _Number(int, 1, 4096), "seed": _Number(int, 0, 2**63 - 1)}


def of_stages(stages: Stages) -> dict[str, Value]:
    """Every setting of the stages that generate, with its present value."""
    generating = _generating(stages)
    values: dict[str, Value] = {}
    for stage in generating:
        prefix = f"{stage.name}." if len(generating) > 1 else ""
        values |= {prefix + name: getattr(stage.sampling, name) for name in _OF_SAMPLING}
    return values


def with_setting(stages: Stages, name: str, text: str) -> Stages:
    """The stages with one setting (a known one) replaced."""
    target, _, field = name.rpartition(".")
    value = parse(_OF_SAMPLING[field], name, text)
    target = target or _generating(stages)[0].name
    return tuple(_with(stage, field, value) if stage.name == target else stage for stage in stages)


def of_kind(name: str, text: str) -> int:
    """The value of `k` or `seed`."""
    return int(parse(_OF_KIND[name], name, text))


def full_name(stages: Stages, name: str, known: Mapping[str, Value]) -> str:
    """The name as `known` has it: `answer.top_p` is `top_p` where only that stage generates. Refuses unknown ones."""
    stage, _, field = name.rpartition(".")
    if stage and [stage] == [one.name for one in _generating(stages)]:
        name = field
    if name not in known:
        listed = "it has " + ", ".join(known) if known else "it has none, because nothing is sampled"
        raise SettingError(f"there is no setting {name!r} here; {listed}")
    return name


def parse(number: _Number, name: str, text: str) -> Value:
    """A value from its text, or a SettingError."""
    word = "a whole number" if number.convert is int else "a number"
    try:
        value = number.convert(text)
    except ValueError:
        raise SettingError(f"{name}={text!r} is not {word}") from None
    if not number.low <= value <= number.high:
        raise SettingError(f"{name}={text} is not {word} from {number.low:g} to {number.high:g}")
    return value


def _with(stage: Stage, field: str, value: Value) -> Stage:
    return replace(stage, sampling=replace_fields(stage.sampling, **{field: value}))


def _generating(stages: Stages) -> list[Stage]:
    return [stage for stage in stages if stage.mode == "generate"]
