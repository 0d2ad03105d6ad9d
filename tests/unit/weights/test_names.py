"""File names of every family seen in public, and names nobody foresaw."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_weights.names import ModelName, natural, parse

SEEN = [
    ("rwkv7-g1a-0.1b-20250728-ctx4096.pth", "rwkv7", "g1a", 0.1, "20250728", 4096),
    ("rwkv7-g1a3-2.9b-20251103-ctx8192", "rwkv7", "g1a3", 2.9, "20251103", 8192),
    ("rwkv7-g0-7.2b-20250722-ctx4096", "rwkv7", "g0", 7.2, "20250722", 4096),
    ("rwkv7-g1h-13.3b-20260710-ctx10240", "rwkv7", "g1h", 13.3, "20260710", 10240),
    ("rwkv7a-g1b-0.1b-20250819-ctx4096", "rwkv7a", "g1b", 0.1, "20250819", 4096),
    ("rwkv7b-g1b-0.1b-20250822-ctx4096", "rwkv7b", "g1b", 0.1, "20250822", 4096),
    ("RWKV-x070-World-0.1B-v2.8-20241210-ctx4096", "rwkv7", "v2.8", 0.1, "20241210", 4096),
    ("rwkv-x070-2b9-world-v3-preview-20250210-ctx4k", "rwkv7", "v3", 2.9, "20250210", 4096),
    ("/data/w/rwkv7-builtin-0.001b-20261121-ctx64.pth", "rwkv7", "", 0.001, "20261121", 64),
    ("rwkv7-g1-0.4b", "rwkv7", "g1", 0.4, "", None),
    ("my-finetune", "", "", None, "", None),
    ("", "", "", None, "", None),
]


@pytest.mark.parametrize(("name", "architecture", "version", "size_b", "date", "context"), SEEN)
def test_seen(name: str, architecture: str, version: str, size_b: float | None, date: str, context: int | None) -> None:
    found = parse(name)
    assert (found.architecture, found.version, found.size_b, found.date, found.context) == (
        architecture,
        version,
        size_b,
        date,
        context,
    )
    assert found.text == name.rsplit("/", 1)[-1].removesuffix(".pth")


def test_versions_come_in_natural_order() -> None:
    ordered = ["g0", "g0a", "g0b", "g1", "g1a", "g1a3", "g1a4", "g1a10", "g1b", "g1h"]
    assert sorted(set(ordered), key=natural) == ordered


def test_small_models_come_first_and_unknown_names_last() -> None:
    names = [
        "rwkv7-g1a-0.1b-20250728-ctx4096",
        "rwkv7-g1d-0.1b-20260129-ctx8192",
        "rwkv7-g1-1.5b-20250429-ctx4096",
        "zebra",
    ]
    assert sorted(set(names), key=lambda n: parse(n).sort_key) == names


@given(st.text(max_size=60))
def test_any_name_works_and_compares(name: str) -> None:
    found = parse(name)
    assert isinstance(found, ModelName)
    assert sorted([found.sort_key, parse("rwkv7-g1a3-2.9b").sort_key])
