"""What the numbers and times of a request may be: a test sees to it that each has a range."""

from typing import Annotated, Final

from msgspec import Meta

WHOLE: Final = 2**53 - 1
"""The largest integer that every reader of JSON keeps as it is."""

Number = Annotated[int, Meta(ge=-1, le=WHOLE)]
"""A cursor, an offset, or the number of a row, a sample or an event; -1 is before the first one."""
Count = Annotated[int, Meta(ge=0, le=10**9)]
"""How many are wanted."""
Rank = Annotated[int, Meta(ge=-(10**9), le=10**9)]
"""A priority."""
Steps = Annotated[int, Meta(ge=-(10**9), le=10**9)]
"""How far to go on, or back."""
Seed = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Pid = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Ticks = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[int, Meta(ge=0, le=10**9)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Reading = Annotated[float, Meta(ge=-1e15, le=1e15)]
"""A value of a metric."""
Billions = Annotated[float, Meta(ge=0.0, le=1e9)]
Stamp = Annotated[float, Meta(ge=0.0, le=253402300799.0)]
"""Seconds since 1970, up to the year 9999."""
IS_MOMENT: Final = "moment"
Moment = Annotated[str, Meta(extra={IS_MOMENT: True})]
"""A time (RFC 3339; without a zone UTC) of the years 1970 to 9999; empty for none."""
