"""Which schema files a store still needs. Forward only: a store never goes back to an older schema.

The numbered files of `schema/` are the schema. Each store has a table of those that were applied, with their checksums:
if a file were changed after it was applied, two stores of one version would differ.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rwkv_daemon.store import dialect
from rwkv_daemon.store.interface import StoreDamagedError

SCHEMA: Final = Path(__file__).with_name("schema")
LEDGER: Final = """
CREATE TABLE IF NOT EXISTS migration (  -- schema files that were applied
    version INTEGER PRIMARY KEY,
    sha256 TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;
"""
APPLIED: Final = "SELECT version, sha256 FROM migration"
RECORD: Final = "INSERT INTO migration (version, sha256, at) VALUES (?, ?, ?)"


@dataclass(frozen=True, slots=True)
class SchemaRepair:
    """What a store lacks that was made before its schema file `version` was changed: an index, or a column of a table;
    and the SQL that adds it."""

    version: int
    table: str
    column: str
    index: str
    script: str


REPAIRS: Final = (
    SchemaRepair(1, "job", "", "job_by_name", "CREATE INDEX job_by_name ON job (model, benchmark, kind, id);"),
    SchemaRepair(
        2, "job", "checking", "",
        "ALTER TABLE job ADD COLUMN checking TEXT NOT NULL DEFAULT '';\n"
        "CREATE INDEX job_to_check ON job (checking) WHERE checking = 'wanted';",
    ),
    SchemaRepair(2, "verdict", "service", "", "ALTER TABLE verdict ADD COLUMN service TEXT NOT NULL DEFAULT 'judge';"),
    SchemaRepair(
        9, "finding", "", "finding_by_job",
        "CREATE INDEX finding_by_job ON finding (job, sample);\nDROP INDEX IF EXISTS score_by_age;",
    ),
)  # fmt: skip
"""Schema files were changed after the first stores were made with them. That does not happen any more (a test knows
each checksum), and those stores are updated to what the files say now."""
EARLIER: Final = {(9, "880f63c87f7ecfc91bcf6d7785874db1f73677c1bd4ef9e7436e37b5a0dd1785")}
"""Versions with the checksums of their earlier contents."""
CORRECT: Final = "UPDATE migration SET sha256 = ? WHERE version = ?"


@dataclass(frozen=True, slots=True)
class Migration:
    """One schema file: its version, from its name, and its SQL."""

    version: int
    script: str

    @property
    def sha256(self) -> str:
        """SHA-256 of its statements; comments and line breaks do not change it."""
        return hashlib.sha256("\n".join(sql for sql, _ in dialect.statements(self.script)).encode()).hexdigest()


def migrations(folder: Path = SCHEMA) -> list[Migration]:
    """Return every schema file, by version."""
    found = [Migration(int(path.name.partition("_")[0]), path.read_text("utf-8")) for path in folder.glob("*.sql")]
    return sorted(found, key=lambda one: one.version)


def corrections(known: list[Migration], applied: Mapping[int, str]) -> list[tuple[str, int]]:
    """Return (checksum, version) of the records to update once a store is repaired."""
    ours = {one.version: one.sha256 for one in known}
    return [(ours[one], one) for one, sha256 in sorted(applied.items()) if (one, sha256) in EARLIER and one in ours]


def pending(known: list[Migration], applied: Mapping[int, str], where: str) -> list[Migration]:
    """Return the migrations to apply, in order. Raises StoreDamagedError for a store that this version cannot use."""
    ours = {one.version: one.sha256 for one in known}
    newer = max(applied.keys() - ours.keys(), default=0)
    if newer:
        raise StoreDamagedError(
            f"{where} was written by a newer rwkvctl (schema {newer}, this one knows {max(ours)}). Upgrade rwkvctl."
        )
    changed = sorted(one for one, sha256 in applied.items() if sha256 != ours[one] and (one, sha256) not in EARLIER)
    if changed:
        raise StoreDamagedError(
            f"{where} was written by another build of rwkvctl, whose schema {changed[0]} is not this one's. "
            "Use that build, or restore a backup into a new home."
        )
    return [one for one in known if one.version not in applied]
