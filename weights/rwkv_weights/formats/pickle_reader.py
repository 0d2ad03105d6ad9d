"""The pickle in a torch file, read as data: a machine for the few opcodes that `torch.save` writes for plain tensors.

Nothing is imported or called, whatever the file names: tensors become `PickledTensor` records, and every other object
is a refusal. Python's own unpickler is not used even with a restricted `find_class`: one opcode can make its memo table
allocate 64 GiB. This is also what lets `weights list` and `show` read a .pth without importing torch.
"""

import pickletools
from collections.abc import Callable
from io import BytesIO
from itertools import islice
from typing import Any, Final, NamedTuple

from rwkv_weights.formats.entry import Shape

STORAGES: Final = {
    "BFloat16Storage": "bfloat16", "HalfStorage": "float16", "FloatStorage": "float32", "DoubleStorage": "float64",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool",
}  # fmt: skip


MOST_STEPS: Final = 1_000_000
"""Opcodes of a pickle; the 0.3 MiB of the largest public checkpoint hold less than a third. Each may cost 100 bytes."""
LONGEST_NAME: Final = 200
"""Maximum length of the name of a class or function. One opcode makes such a name from two strings, again and again
from the same ones."""
MOST_ARGUMENTS: Final = 16
MOST_AXES: Final = 8


class PickleError(Exception):
    """The pickle holds something other than plain tensors, or is damaged."""


class GlobalName(NamedTuple):
    """The name of a class or function; it stays a name."""

    name: str


class PickledStorage(NamedTuple):
    """The storage of a tensor: the record's key, the type and the count of its numbers."""

    key: str
    dtype: str
    numbers: int


class PickledTensor(NamedTuple):
    """A view of a storage, counted in numbers."""

    storage: PickledStorage
    offset: int
    shape: Shape
    stride: Shape


def read(stream: BytesIO) -> object:
    """Return the next pickled object of the stream. Raises PickleError."""
    machine = _Machine()
    try:
        for opcode, argument, _ in islice(pickletools.genops(stream), MOST_STEPS):
            if opcode.name == "STOP":
                return machine.stack.pop()
            machine.step(opcode.name, argument)
    except PickleError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, AssertionError) as error:
        raise PickleError("the pickle is broken") from error
    raise PickleError("the pickle has no end, or is far longer than that of any model")


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def step(self, name: str, argument: Any) -> None:
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _LITERALS:
            self.stack.append(argument)
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        else:
            raise PickleError(f"it holds something that no tensor needs ({name})")

    def since_mark(self) -> list[Any]:
        start = self.marks.pop()
        found = self.stack[start:]
        del self.stack[start:]
        return found

    def take(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise PickleError("the pickle is broken")
        found = self.stack[-count:]
        del self.stack[-count:]
        return found

    def set_items(self, flat: list[Any]) -> None:
        table = self.stack[-1]
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if type(key) is not str:  # the hash of nested tuples takes exponential time, or the whole C stack
                raise PickleError("it has a table whose keys are not names")
            if key in table:
                raise PickleError(f"it names {key[:LONGEST_NAME]!r} twice")
            table[key] = value

    def build(self) -> None:
        """Apply a state to the object below; that of a table (`_metadata` of a state_dict) says nothing about
        tensors."""
        self.stack.pop()
        if not isinstance(self.stack[-1], dict):
            raise PickleError("it holds an object with a state of its own")

    def reduce(self) -> None:
        function, arguments = self.take(2)
        maker = _MAKERS.get(function.name) if isinstance(function, GlobalName) else None
        if maker is None:
            raise PickleError(f"it wants {getattr(function, 'name', 'something')} to be called")
        if not isinstance(arguments, tuple) or len(arguments) > MOST_ARGUMENTS:
            raise PickleError("the pickle is broken")
        self.stack.append(maker(*arguments))


def _global(*words: str) -> GlobalName:
    if sum(map(len, words)) > LONGEST_NAME:
        raise PickleError("it holds something that no tensor needs (a name without end)")
    return GlobalName(".".join(words))


def _storage(pid: Any) -> PickledStorage:
    """Return the storage for ('storage', type, key, device, count), in old files with a view at the end."""
    word, kind, key, _, count = pid[:5]
    dtype = STORAGES.get(kind.name.removeprefix("torch.")) if isinstance(kind, GlobalName) else None
    if word != "storage" or dtype is None or not isinstance(key, str) or (len(pid) > 5 and pid[5] is not None):
        raise PickleError("it holds numbers of a type that no tensor of a model has")
    return PickledStorage(key, dtype, whole((count,))[0])


def _tensor(storage: Any, offset: Any, shape: Any, stride: Any, *_: Any) -> PickledTensor:
    if not isinstance(storage, PickledStorage) or len(shape) != len(stride):
        raise PickleError("it holds a tensor without numbers")
    return PickledTensor(storage, whole((offset,))[0], whole(shape), whole(stride))


def _table() -> dict[str, Any]:
    """Return an empty table, as torch writes it. A table filled from a list would have unchecked keys."""
    return {}


def _parameter(data: Any, *_: Any) -> PickledTensor:
    if not isinstance(data, PickledTensor):
        raise PickleError("it holds a parameter without a tensor")
    return data


def whole(values: Any) -> Shape:
    """Return a tuple of whole numbers that are not negative. Raises PickleError for anything else."""
    if (
        not isinstance(values, tuple)
        or len(values) > MOST_AXES
        or not all(type(value) is int and 0 <= value < 1 << 62 for value in values)
    ):
        raise PickleError("it holds a tensor of impossible size")
    return values


_CONSTANTS: Final[dict[str, Callable[[], Any]]] = {
    "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple, "EMPTY_LIST": list, "NONE": lambda: None, "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
}  # fmt: skip
_LITERALS: Final = frozenset({
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE",
})  # fmt: skip
_MAKERS: Final[dict[str, Callable[..., Any]]] = {
    "collections.OrderedDict": _table,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": _parameter,
}
_ACTIONS: Final[dict[str, Callable[[_Machine, Any], object]]] = {
    "PROTO": lambda m, _: None,
    "FRAME": lambda m, _: None,
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "BINPUT": lambda m, slot: m.memo.__setitem__(slot, m.stack[-1]),
    "LONG_BINPUT": lambda m, slot: m.memo.__setitem__(slot, m.stack[-1]),
    "MEMOIZE": lambda m, _: m.memo.__setitem__(len(m.memo), m.stack[-1]),
    "BINGET": lambda m, slot: m.stack.append(m.memo[slot]),
    "LONG_BINGET": lambda m, slot: m.stack.append(m.memo[slot]),
    "GLOBAL": lambda m, words: m.stack.append(_global(*words.split(" "))),
    "STACK_GLOBAL": lambda m, _: m.stack.append(_global(*m.take(2))),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.since_mark())),
    "TUPLE1": lambda m, _: m.stack.append(tuple(m.take(1))),
    "TUPLE2": lambda m, _: m.stack.append(tuple(m.take(2))),
    "TUPLE3": lambda m, _: m.stack.append(tuple(m.take(3))),
    "APPEND": lambda m, _: m.stack[-2].append(m.stack.pop()),
    "APPENDS": lambda m, _: m.stack[m.marks[-1] - 1].extend(m.since_mark()),
    "SETITEM": lambda m, _: m.set_items(m.take(2)),
    "SETITEMS": lambda m, _: m.set_items(m.since_mark()),
    "BINPERSID": lambda m, _: m.stack.append(_storage(m.stack.pop())),
    "REDUCE": lambda m, _: m.reduce(),
    "BUILD": lambda m, _: m.build(),
}
