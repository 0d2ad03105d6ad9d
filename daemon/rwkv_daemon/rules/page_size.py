"""The size of one page of a list."""

from typing import Final

MOST_ON_A_PAGE: Final = 1000


def page_size(limit: int) -> int:
    """Return the number of items on one page for a request's limit: 1 to `MOST_ON_A_PAGE`."""
    return max(1, min(limit, MOST_ON_A_PAGE))
