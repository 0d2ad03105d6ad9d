"""Raw rows of parquet and arrow files, which the `datasets` library reads, as tables.

Its Python rows are not used: it decodes in them what a file's metadata calls an image or a sound, and may fetch that
from an address. `load_dataset` is not used, because it reports each use to a server. Parquet is decoded by row group: a
group of 300 MB takes about 1.3 GB of memory.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources.raw import Placed
from rwkvctl.settings.config import library_variable, quiet_hub

BATCH: Final = 16


def of_parquet(stream: IO[bytes], where: str) -> Iterator[Placed]:
    """The rows of a parquet file; times and decimals are left to the benchmark, nothing becomes NaN."""
    yield from _placed(_parquet, stream, where)


def of_arrow(stream: IO[bytes], where: str) -> Iterator[Placed]:
    """The rows of an arrow stream, which is how `save_to_disk` of the `datasets` library writes them."""
    yield from _placed(_arrow, stream, where)


def _parquet(library: Any, path: str, folder: str) -> Any:
    from pyarrow.dataset import ParquetFragmentScanOptions

    # Without these, several row groups are in memory at once. The folder holds a lock and nothing else.
    options = ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
    return library.IterableDataset.from_parquet(path, cache_dir=folder, batch_size=BATCH, fragment_scan_options=options)


def _arrow(library: Any, path: str, _folder: str) -> Any:
    return library.IterableDataset.from_file(path)


def _placed(opened: Callable[[Any, str, str], Any], stream: IO[bytes], where: str) -> Iterator[Placed]:
    library, number = _library(), 0
    with _file(stream) as path, tempfile.TemporaryDirectory(prefix="rwkvctl-rows-") as folder:
        try:
            for table in opened(library, path, folder).with_format("arrow").iter(batch_size=BATCH):
                table.validate(full=True)  # an arrow file can point outside of itself
                for row in table.to_pylist():
                    number += 1
                    yield f"{where} row {number}", row
        except Exception as error:  # noqa: BLE001 - a file's metadata can break the library anywhere
            raise _refused(error, where, number) from None


def _refused(error: Exception, where: str, number: int) -> Exception:
    """What is said of a file that breaks the library; what the system says of it stays as it is."""
    from pyarrow import ArrowException

    if isinstance(error, OSError) and error.errno:
        return error
    said = " ".join(str(error).split())[:200]
    if isinstance(error, OSError | ArrowException):
        return PrepareError(f"{where} is damaged after row {number} ({said})")
    return PrepareError(f"the library `datasets` cannot read {where} ({said})")


@contextlib.contextmanager
def _file(stream: IO[bytes]) -> Iterator[str]:
    """The path of a stream's content: the library takes "::", "*" and "[" in the name of a file for more than a name.
    What is packed is unpacked into a file without a name, which is gone once it is closed or the process ends."""
    with contextlib.ExitStack() as stack:
        if not stream.seekable():
            packed, stream = stream, stack.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(packed, stream)
            stream.flush()
        yield f"/proc/self/fd/{stream.fileno()}"


def _library() -> Any:
    """The `datasets` library. It takes half a second to import, and would take a second more and load torch if it found
    it."""
    quiet_hub()  # the library imports the hub's client
    try:
        with library_variable("USE_TORCH", "0"):
            import datasets
    except ImportError as error:
        raise PrepareError(f"reading parquet needs the extra rwkvctl[daemon] ({error})") from None
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # an error is said once, by us
    return datasets
