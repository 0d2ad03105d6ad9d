"""Raw rows of parquet and arrow files, which the `datasets` library reads, as tables.

Its Python rows are not used: it decodes in them what a file's metadata calls an image or a sound, and may fetch that
from an address. `load_dataset` is not used, because it reports each use to a server. Parquet is decoded by row group: a
group of 300 MB takes about 1.3 GB of memory.
"""

import contextlib
import glob
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Final

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources.raw import Placed
from rwkvctl.settings.config import quiet_hub

BATCH: Final = 16


def of_parquet(stream: IO[bytes], where: str) -> Iterator[Placed]:
    """The rows of a parquet file; times and decimals are left to the benchmark, nothing becomes NaN."""
    yield from _placed(_parquet, stream, where)


def of_arrow(stream: IO[bytes], where: str) -> Iterator[Placed]:
    """The rows of an arrow stream, which is how `save_to_disk` of the `datasets` library writes them."""
    yield from _placed(_arrow, stream, where)


def _parquet(library: Any, path: Path) -> Any:
    from pyarrow.dataset import ParquetFragmentScanOptions

    # Without these, several row groups are in memory at once. The cache folder is only ever locked, nothing is kept.
    options = ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
    return library.IterableDataset.from_parquet(
        glob.escape(str(path)), cache_dir=str(path.parent), batch_size=BATCH, fragment_scan_options=options
    )


def _arrow(library: Any, path: Path) -> Any:
    return library.IterableDataset.from_file(str(path))


def _placed(opened: Callable[[Any, Path], Any], stream: IO[bytes], where: str) -> Iterator[Placed]:
    library, number = _library(), 0
    with _file(stream) as path:
        try:
            for table in opened(library, path).with_format("arrow").iter(batch_size=BATCH):
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
def _file(stream: IO[bytes]) -> Iterator[Path]:
    """A stream as a file, which the library needs, under a name that it takes for nothing else ("::" and "*" mean
    something to it): a link to a plain file, a copy of what is packed. It is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="rwkvctl-rows-") as folder:
        path = Path(folder) / "rows"
        if stream.seekable():
            path.symlink_to(Path(stream.name).absolute())
        else:
            with path.open("wb") as copy:
                shutil.copyfileobj(stream, copy)
        yield path


def _library() -> Any:
    """The `datasets` library. It takes half a second to import, and would take a second more and load torch if it found
    it."""
    quiet_hub()  # the library imports the hub's client
    before = os.environ.get("USE_TORCH")
    os.environ["USE_TORCH"] = "0"
    try:
        import datasets
    except ImportError as error:
        raise PrepareError(f"reading parquet needs the extra rwkvctl[daemon] ({error})") from None
    finally:
        os.environ.pop("USE_TORCH") if before is None else os.environ.update(USE_TORCH=before)
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # an error is said once, by us
    return datasets
