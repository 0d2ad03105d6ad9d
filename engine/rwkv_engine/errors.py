"""What can go wrong in the engine, each with the sentence its user reads.

EngineError
├── ItemError               one item of a request cannot be done as asked (400, or the item's `error`)
│   └── ConstraintError     what a sample is to be cannot be followed
├── QueueFullError          the queue takes no more now (429)
├── OutOfMemory             a step or a copy of a state did not fit the device's memory
└── VocabularyError         no tokenizer belongs to this vocabulary size
"""


class EngineError(Exception):
    """Base of the engine's errors."""


class ItemError(EngineError):
    """An item cannot be done as asked; the message names the item's fault."""


class ConstraintError(ItemError):
    """A constraint on a sample cannot be followed. `reason` says why without naming the field."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"constraint: {reason}")
        self.reason = reason


class QueueFullError(EngineError):
    """The queue is full. `limit` is its bound in items."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the queue holds {limit} items and cannot take these now")
        self.limit = limit


class VocabularyError(EngineError):
    """No tokenizer belongs to this vocabulary size."""


class OutOfMemory(EngineError):  # noqa: N818 - the field's word
    """A step or a copy of a state did not fit the device's memory; nothing of it may be relied on."""
