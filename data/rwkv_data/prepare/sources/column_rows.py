"""Raw rows of parquet and arrow files, a few at a time: rows with their tests can be tens of megabytes each."""

from collections.abc import Iterator
from typing import IO, Any, Final

from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources.raw import Placed

BATCH: Final = 16


def of_parquet(stream: IO[bytes], where: str) -> Iterator[Placed]:
    """The rows of a parquet file; times and decimals are left to the benchmark, nothing becomes NaN."""
    parquet = _module("pyarrow.parquet")
    yield from _placed(lambda: parquet.ParquetFile(stream, pre_buffer=False).iter_batches(batch_size=BATCH), where)


def of_arrow(stream: IO[bytes], where: str) -> Iterator[Placed]:
    """The rows of an arrow stream, which is how `save_to_disk` of the `datasets` library writes them."""
    ipc = _module("pyarrow.ipc")
    yield from _placed(lambda: iter(ipc.open_stream(stream)), where)


def _placed(batches: Any, where: str) -> Iterator[Placed]:
    damage, number = _module("pyarrow").ArrowException, 0
    try:
        for batch in batches():
            for start in range(0, batch.num_rows, BATCH):
                for row in batch.slice(start, BATCH).to_pylist():
                    number += 1
                    yield f"{where} row {number}", row
    except (damage, UnicodeDecodeError) as error:
        raise PrepareError(f"{where} is damaged after row {number} ({' '.join(str(error).split())[:200]})") from None


def _module(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise PrepareError(f"reading parquet needs the extra rwkvctl[daemon] ({error})") from None
