"""The errors of the engine. Each message is one sentence for the user.

EngineError
├── ItemError               one item of a request cannot be done as asked (400, or the item's `error`)
│   └── ConstraintError     a constraint on a sample cannot be followed
├── QueueFullError          the queue is full (429)
├── OutOfMemory             a step or a copy of a state did not fit the device's memory
└── VocabularyError         no tokenizer belongs to this vocabulary size
"""


class EngineError(Exception):
    """Base of the engine's errors."""


class ItemError(EngineError):
    """An item cannot be done as asked. The message names what is wrong with it."""


class ConstraintError(ItemError):
    """A constraint on a sample cannot be followed. `reason` says why without naming the field."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"constraint: {reason}")
        self.reason = reason


class QueueFullError(EngineError):
    """The queue is full. `limit` is its bound in items."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the queue holds at most {limit} items and has no room for these")
        self.limit = limit


class VocabularyError(EngineError):
    """No tokenizer belongs to this vocabulary size."""


class OutOfMemory(EngineError):  # noqa: N818 - the field's word
    """A step, or the copy of a state, did not fit the device's memory. Its result must not be used."""
