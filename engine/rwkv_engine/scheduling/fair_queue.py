"""The order in which tasks get slots: by priority, then one group after the other, each in order of arrival."""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class FairQueue(Generic[T]):
    """A queue in which, within a priority, every group gets a turn before any gets its second, so that no job's rows
    starve another's."""

    _levels: dict[int, OrderedDict[str, deque[T]]] = field(default_factory=dict)
    _count: int = 0

    def __len__(self) -> int:
        return self._count

    def push(self, item: T, priority: int, group: str) -> None:
        """Append an item to its group."""
        level = self._levels.setdefault(priority, OrderedDict())
        level.setdefault(group, deque()).append(item)
        self._count += 1

    def pop(self) -> T:
        """Remove and return the next item. Raises IndexError if nothing waits."""
        if not self._levels:
            raise IndexError("nothing waits")
        priority = max(self._levels)
        level = self._levels[priority]
        group, items = next(iter(level.items()))
        item = items.popleft()
        level.move_to_end(group)
        self._drop_empty(priority, group)
        self._count -= 1
        return item

    def remove(self, condition: Callable[[T], bool]) -> list[T]:
        """Remove and return all items that fulfil the condition."""
        taken: list[T] = []
        for priority, level in list(self._levels.items()):
            for group, items in list(level.items()):
                gone = [item for item in items if condition(item)]
                if gone:
                    level[group] = deque(item for item in items if not condition(item))
                    taken += gone
                    self._drop_empty(priority, group)
        self._count -= len(taken)
        return taken

    def _drop_empty(self, priority: int, group: str) -> None:
        level = self._levels[priority]
        if not level[group]:
            del level[group]
        if not level:
            del self._levels[priority]
