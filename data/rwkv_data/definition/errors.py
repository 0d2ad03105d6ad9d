"""The errors of rwkv_data. Each message is one sentence for the operator: what is wrong, where, and what to do.

RwkvctlError
└── DataError
    ├── UnknownBenchmarkError   no benchmark file of that name
    ├── BenchmarkFileError      a benchmark file that cannot be used
    ├── SettingError            a setting of a benchmark that does not exist or does not fit
    ├── RowError                a row that a benchmark cannot use (the reader adds where it stands)
    ├── PrepareError            rows that cannot be fetched or written
    ├── RowsMissingError        rows that were never prepared
    ├── RowSetMissingError      rows of others that are not kept
    ├── RowsDamagedError        prepared rows that are not what their manifest says
    └── NotCheckedError         training rows that cannot be compared with every benchmark, where that was asked for
"""

from rwkvctl.protocol.errors import Exit, RwkvctlError


class DataError(RwkvctlError):
    """Base class of the errors of rwkv_data."""


class UnknownBenchmarkError(DataError):
    """There is no benchmark of the given name."""

    exit_code = Exit.NOT_FOUND


class BenchmarkFileError(DataError):
    """A benchmark file cannot be used; the message begins with its path."""


class SettingError(DataError):
    """A setting does not exist or does not fit; the message names those that do."""

    exit_code = Exit.USAGE


class RowError(DataError):
    """A benchmark cannot use a row."""


class PrepareError(DataError):
    """Rows cannot be fetched, read or written."""


class RowsMissingError(DataError):
    """The rows of a benchmark have not been prepared."""


class RowSetMissingError(DataError):
    """Rows of others are not kept, or are being replaced just now."""


class RowsDamagedError(DataError):
    """The prepared rows are not what their manifest says."""


class NotCheckedError(DataError):
    """Training rows cannot be compared with every benchmark, and that was asked for."""

    exit_code = Exit.REFUSED
