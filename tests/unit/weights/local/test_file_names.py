"""File names of every family seen in public, and names nobody foresaw."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_weights.local.file_names import ModelName, natural, parse

SEEN = [
    # every name of reference/rwkv7-engine.md 1.5
    ("rwkv7-g0-7.2b-20250722-ctx4096", "rwkv7", "g0", 7.2, "20250722", 4096),
    ("g0-7.2b-20250722", "", "g0", 7.2, "20250722", None),
    ("g0a-7.2b-20250829", "", "g0a", 7.2, "20250829", None),
    ("g0b-13.3b-20251130", "", "g0b", 13.3, "20251130", None),
    ("rwkv7-g1-1.5b-20250429-ctx4096.pth", "rwkv7", "g1", 1.5, "20250429", 4096),
    ("rwkv7-g1-2.9b-20250519-ctx4096.pth", "rwkv7", "g1", 2.9, "20250519", 4096),
    ("rwkv7-g1-0.4b", "rwkv7", "g1", 0.4, "", None),
    ("rwkv7-g1a-0.1b-20250728-ctx4096.pth", "rwkv7", "g1a", 0.1, "20250728", 4096),
    ("rwkv7-g1a-0.4b-20250905-ctx4096.pth", "rwkv7", "g1a", 0.4, "20250905", 4096),
    ("rwkv7-g1a3-2.9b-20251103-ctx8192", "rwkv7", "g1a3", 2.9, "20251103", 8192),
    ("rwkv7-g1a4-2.9b", "rwkv7", "g1a4", 2.9, "", None),
    ("rwkv7-g1b-1.5b-20251202-ctx8192", "rwkv7", "g1b", 1.5, "20251202", 8192),
    ("rwkv7-g1c-1.5b", "rwkv7", "g1c", 1.5, "", None),
    ("rwkv7-g1d-0.1b-20260129-ctx8192", "rwkv7", "g1d", 0.1, "20260129", 8192),
    ("rwkv7-g1d-0.4b-20260210-ctx8192", "rwkv7", "g1d", 0.4, "20260210", 8192),
    ("rwkv7-g1e-13.3b-20260309", "rwkv7", "g1e", 13.3, "20260309", None),
    ("rwkv7-g1f-7.2b-20260414-ctx8192", "rwkv7", "g1f", 7.2, "20260414", 8192),
    ("rwkv7-g1f-13.3b-20260415-ctx8192", "rwkv7", "g1f", 13.3, "20260415", 8192),
    ("rwkv7-g1f-1.5b-20260419-ctx8192", "rwkv7", "g1f", 1.5, "20260419", 8192),
    ("rwkv7-g1f-2.9b-20260420-ctx8192", "rwkv7", "g1f", 2.9, "20260420", 8192),
    ("rwkv7-g1g-13.3b-20260523", "rwkv7", "g1g", 13.3, "20260523", None),
    ("rwkv7-g1g-1.5b-20260526", "rwkv7", "g1g", 1.5, "20260526", None),
    ("rwkv7-g1h-13.3b-20260710-ctx10240", "rwkv7", "g1h", 13.3, "20260710", 10240),
    ("rwkv7-g1i-7.2b-20260805-ctx16384", "rwkv7", "g1i", 7.2, "20260805", 16384),
    ("RWKV-x070-World-0.1B-v2.8-20241210-ctx4096", "rwkv7", "v2.8", 0.1, "20241210", 4096),
    ("RWKV-x070-World-2.9B-v3-20250211-ctx4096", "rwkv7", "v3", 2.9, "20250211", 4096),
    ("rwkv-x070-2b9-world-v3-preview-20250210-ctx4k", "rwkv7", "v3", 2.9, "20250210", 4096),
    ("rwkv7a-g1b-0.1b-20250819-ctx4096", "rwkv7a", "g1b", 0.1, "20250819", 4096),
    ("rwkv7b-g1b-0.1b-20250822-ctx4096", "rwkv7b", "g1b", 0.1, "20250822", 4096),
    ("rwkv-8-pile-rc00-20250508", "rwkv8", "pile", None, "20250508", None),
    # Hugging Face repositories, safetensors, other spellings
    ("rwkv7-1.5B-world", "rwkv7", "world", 1.5, "", None),
    ("fla-hub/rwkv7-2.9B-g1", "rwkv7", "g1", 2.9, "", None),
    ("fla-hub/rwkv7-191M-world", "rwkv7", "world", 0.191, "", None),
    ("fla-hub/rwkv7-168M-pile", "rwkv7", "pile", 0.168, "", None),
    ("RWKV/RWKV7-Goose-World3-2.9B-HF", "rwkv7", "v3", 2.9, "", None),
    ("RWKV/RWKV7-Goose-World2.8-0.1B-HF", "rwkv7", "v2.8", 0.1, "", None),
    ("wangyue114514/rwkv7-g1d-0.4b-hf", "rwkv7", "g1d", 0.4, "", None),
    ("RWKV-x070-Pile-168M-20241120-ctx4096.pth", "rwkv7", "pile", 0.168, "20241120", 4096),
    ("RWKV-x060-World-1B6-v2.1-20240328-ctx4096.pth", "rwkv6", "v2.1", 1.6, "20240328", 4096),
    ("rwkv7-g1d-0.4b-20260210-ctx8192.safetensors", "rwkv7", "g1d", 0.4, "20260210", 8192),
    ("rwkv7-g1d-0.4b.safetensors.index.json", "rwkv7", "g1d", 0.4, "", None),
    ("rwkv-x070-7b2-world-v3", "rwkv7", "v3", 7.2, "", None),
    ("RWKV_7-g1-13b3", "rwkv7", "g1", 13.3, "", None),
    # names of our own, and of nobody
    ("/data/w/rwkv7-builtin-0.001b-20261121-ctx64.pth", "rwkv7", "", 0.001, "20261121", 64),
    ("my-finetune", "", "", None, "", None),
    ("g1-but-not-at-the-edges-xg1a", "", "g1", None, "", None),
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
    short = name.rsplit("/", 1)[-1]
    for ending in (".pth", ".safetensors", ".safetensors.index.json"):
        short = short.removesuffix(ending)
    assert found.text == short


ORDERED = [
    "", "pile", "world", "v2.8", "v2.9", "v2.10", "v3", "g0", "g0a", "g0b", "g1", "g1a", "g1a3", "g1a4", "g1a10", "g1b",
    "g1c", "g1d", "g1e", "g1f", "g1g", "g1h", "g1i", "g2",
]  # fmt: skip


def test_versions_come_in_natural_order() -> None:
    assert sorted(set(ORDERED), key=natural) == ORDERED


@given(st.permutations(ORDERED))
def test_the_order_does_not_depend_on_where_one_starts(shuffled: list[str]) -> None:
    assert sorted(shuffled, key=natural) == ORDERED


@given(st.sampled_from(ORDERED[3:]), st.sampled_from([0.1, 1.5, 2.9, 7.2, 13.3]), st.sampled_from(["", "20260101"]))
def test_a_name_put_together_is_read_back(version: str, size_b: float, date: str) -> None:
    world = "world-" if version.startswith("v") else ""
    found = parse("-".join(filter(None, ["rwkv7", f"{world}{version}", f"{size_b}b", date, "ctx8192"])))
    assert (found.architecture, found.version, found.size_b, found.date, found.context) == (
        "rwkv7",
        version,
        size_b,
        date,
        8192,
    )


@pytest.mark.parametrize(
    ("version", "family"),
    [("g1a3", "g1"), ("g0", "g0"), ("v2.8", "World"), ("world", "World"), ("pile", "Pile"), ("", "")],
)
def test_families(version: str, family: str) -> None:
    assert ModelName("x", version=version).family == family


def test_small_models_come_first_and_unknown_names_last() -> None:
    names = [
        "rwkv7-g1a-0.1b-20250728-ctx4096",
        "rwkv7-g1d-0.1b-20260129-ctx8192",
        "rwkv7-g1-1.5b-20250429-ctx4096",
        "zebra",
    ]
    assert sorted(set(names), key=lambda n: parse(n).sort_key) == names


@given(st.text(max_size=60) | st.from_regex(r"[-_rwkvxgb0-9.MBctk/]{0,60}", fullmatch=True))
def test_any_name_works_and_compares(name: str) -> None:
    found = parse(name)
    assert isinstance(found, ModelName)
    assert sorted([found.sort_key, parse("rwkv7-g1a3-2.9b").sort_key])
