"""What a row is called, in samples, exports and lineage: the id that it has upstream, else NAME/INDEX.

The id stands in the first of `FIELDS` that has one. INDEX is the place in the prepared set, so a row keeps its name
whichever rows a job asks. Ids that two rows of a set share name neither (FLORES has one for all its language pairs):
then all rows of the set are called NAME/INDEX. What has control characters is no id: names stand in files, one a line.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from rwkv_data.definition.row_fields import LONGEST
from rwkv_data.definition.stage import Row

FIELDS: Final = ("id", "task_id", "unique_id", "uuid", "key")
"""Under which names sets keep their ids; HumanEval+ has `task_id`, IFEval `key`."""
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def upstream_id(value: Any) -> str:
    """Return the id of a row as text; empty if the field holds none."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    text = str(value).strip()
    return text if len(text) <= LONGEST and not _CONTROL.search(text) else ""


def first_id(values: Iterable[Any]) -> str:
    """Return the first id among the values of `FIELDS`; empty if there is none."""
    return next(filter(None, map(upstream_id, values)), "")


def upstream_of(row: Row) -> str:
    """Return the id that a row has upstream; empty if it has none."""
    return first_id(map(row.get, FIELDS))


def row_id(benchmark: str, index: int, upstream: str) -> str:
    """Return the name of the row at an index of a prepared set; `upstream` is its own id, empty if it has none."""
    return upstream or f"{benchmark}/{index}"


def are_unique(upstream: Iterable[str]) -> bool:
    """Whether no two rows have the same id; rows without one do not count."""
    seen: set[str] = set()
    return all(one not in seen and not seen.add(one) for one in upstream if one)  # type: ignore[func-returns-value]


def ids_of(benchmark: str, rows: Sequence[Row]) -> Callable[[int], str]:
    """Return the function that names the row at an index of these rows: all rows of a prepared set."""
    upstream = list(map(upstream_of, rows))
    unique = are_unique(upstream)
    return lambda index: row_id(benchmark, index, upstream[index] if unique else "")
