"""How much one page of a list holds."""

from typing import Final

MOST_ON_A_PAGE: Final = 1000


def page_size(limit: int) -> int:
    """The number of items that a request's limit allows on one page: 1 to `MOST_ON_A_PAGE`."""
    return max(1, min(limit, MOST_ON_A_PAGE))
