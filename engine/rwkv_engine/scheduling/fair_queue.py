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

    def push(self, thing: T, priority: int, group: str) -> None:
        """Append a thing to its group."""
        level = self._levels.setdefault(priority, OrderedDict())
        level.setdefault(group, deque()).append(thing)
        self._count += 1

    def pop(self) -> T:
        """Remove and return the next thing. Raises IndexError if nothing waits."""
        if not self._levels:
            raise IndexError("nothing waits")
        priority = max(self._levels)
        level = self._levels[priority]
        group, things = next(iter(level.items()))
        thing = things.popleft()
        level.move_to_end(group)
        self._drop_empty(priority, group)
        self._count -= 1
        return thing

    def remove(self, condition: Callable[[T], bool]) -> list[T]:
        """Remove and return all things that fulfil the condition."""
        taken: list[T] = []
        for priority, level in list(self._levels.items()):
            for group, things in list(level.items()):
                gone = [thing for thing in things if condition(thing)]
                if gone:
                    level[group] = deque(thing for thing in things if not condition(thing))
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
