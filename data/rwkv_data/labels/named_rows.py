"""The rows of a prepared set by their names, as a file that somebody gives may name them."""

from collections.abc import Mapping
from pathlib import Path

from rwkv_data.definition.benchmark import Benchmark
from rwkv_data.prepare import prepared_sets
from rwkv_data.prepare.prepared_sets import Manifest


def rows_by_name(data_dir: Path, benchmark: Benchmark, manifest: Manifest) -> Mapping[str, int]:
    """Return the index of each row by what it may be called: its name in samples and exports, NAME/INDEX, or the index
    alone. Its name wins where it looks like the index of another row."""
    names = prepared_sets.ids_of_rows(data_dir, benchmark, manifest, range(manifest.rows))
    found = {str(index): index for index in range(manifest.rows)}
    found |= {f"{benchmark.name}/{index}": index for index in range(manifest.rows)}
    return found | {name: index for index, name in enumerate(names)}
