"""Whether a unit and its drop-ins leave their service a temporary folder."""

import pytest

from rwkvctl.cli.service.unit_folders import without_temporary
from rwkvctl.cli.service.units import text_of

STRICT = "[Service]\nProtectSystem=strict\n"
OURS = text_of("rwkvctl.service")


@pytest.mark.parametrize(
    "texts",
    [
        [OURS],
        [text_of("user/rwkvctl.service")],
        [],
        ["[Service]\nProtectSystem=full\n"],
        [STRICT + "PrivateTmp=yes\n"],
        [STRICT + "ReadWritePaths=-/tmp\n"],
        [STRICT + 'Environment="TMPDIR=/var/cache/x/tmp" A=b\nCacheDirectory=y x:link\n'],
        [STRICT + "Environment=TMPDIR=/srv/tmp\nReadWritePaths=/mnt \\\n  +/srv\n"],
        [OURS, "[Service]\nEnvironment=TMPDIR=/var/lib/rwkvctl/tmp\n"],
        [OURS, "[Service]\nProtectSystem=\n"],
    ],
)
def test_a_service_that_has_one(texts: list[str]) -> None:
    assert without_temporary(texts) == ""


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([STRICT], "no TMPDIR"),
        ([STRICT + "#Environment=TMPDIR=/run/x\nRuntimeDirectory=x\n"], "no TMPDIR"),
        ([OURS, "[Service]\nEnvironment=\n"], "no TMPDIR"),
        ([OURS, "[Service]\nEnvironment=TMPDIR=/srv\n"], "read-only (/srv)"),
        ([OURS, "[Service]\nCacheDirectory=\n"], "read-only (/var/cache/rwkvctl/tmp)"),
        ([OURS, "[Unit]\nProtectSystem=no\n", "[Service]\nEnvironment=TMPDIR=/srv\n"], "read-only (/srv)"),
        ([STRICT + "PrivateTmp=yes\n", "[Service]\nPrivateTmp=no\n"], "no TMPDIR"),
    ],
)
def test_what_takes_it_away_is_said(texts: list[str], said: str) -> None:
    assert said in without_temporary(texts)
