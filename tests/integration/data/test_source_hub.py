"""The hub's own client against a hub on loopback: layouts, faults, gates, and the cache when there is no network."""

import json
import random
import subprocess
import sys

import pytest

from rwkv_data.definition.benchmark import HubSource

ROWS = [{"question": "Q1", "answer": "None", "n": 10**30}, {"question": "Q\u20282", "answer": "N/A", "n": 1}]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()
SOURCE = HubSource("a/set", "default", "test")


@pytest.fixture
def put(hub):
    """Put files into a set: put("a/set", {"test.jsonl": ...}); as its parquet copy with branch="converted"."""

    def put(repo: str, files: dict[str, bytes], branch: str = "datasets") -> None:
        for name, content in files.items():
            path = hub.root / branch / repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    return put


def parquet(rows, tmp_path) -> bytes:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), tmp_path / "made.parquet")
    return (tmp_path / "made.parquet").read_bytes()


def plain(rows):
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]


def test_json_lines_keep_words_and_long_integers(hub, put, hub_rows) -> None:
    put("a/set", {"test.jsonl": LINES, "train.jsonl": b"{}", "README.md": b"no settings"})
    found = hub_rows(SOURCE)
    assert plain(found["rows"]) == ROWS
    assert found["revision"] == hub.commit("a/set")
    assert found["source"] == "hf:a/set/default/test"
    assert found["places"][1] == f"a/set@{hub.commit('a/set')[:12]} test.jsonl:2"
    assert found["heavy"] == []
    assert all(hub.commit("a/set") in line for line in hub.seen if "test.jsonl" in line)
    assert not any("train" in line for line in hub.seen)
    assert [line for line in hub.seen if "datasets/a/set" not in line] == []


def test_csv_keeps_words_that_look_like_nothing(put, hub_rows) -> None:
    put("a/set", {"data/test.csv": b"id,text\n1,None\n2,N/A\n3,\n"})
    assert [row["text"] for row in hub_rows(SOURCE)["rows"]] == ["None", "N/A", ""]


CARD = b"""---
configs:
- config_name: de
  data_files:
  - split: test
    path: de/*.parquet
- config_name: fr
  data_files:
  - split: test
    path: fr/*.parquet
---
"""


def test_several_configurations_one_after_the_other(put, hub_rows, tmp_path) -> None:
    de, fr = parquet([{"q": "1"}], tmp_path), parquet([{"q": "2"}], tmp_path)
    put("a/set", {"README.md": CARD, "de/0.parquet": de, "fr/0.parquet": fr})
    found = hub_rows(HubSource("a/set", "", "test", configs=("fr", "de")))
    assert [(row["_config"], row["q"]) for row in found["rows"]] == [("fr", "2"), ("de", "1")]
    assert found["source"] == "hf:a/set/fr,de/test"


ABSENT = [
    (HubSource("a/set", "it", "test"), "a/set: there is no configuration 'it'; there are de, fr"),
    (HubSource("a/set", "de", "train"), "a/set: there is no split 'train'; there are test"),
    (HubSource("a/set", "de", "test", revision="v9"), "a/set has no revision v9 on the hub"),
    (HubSource("a/set", "de", "test", files=("*.zip",)), "a/set holds none of *.zip"),
    (HubSource("a/none", "de", "test"), "a/none is not on the hub"),
]


def test_what_is_not_there_names_what_is(put, hub_sets) -> None:
    put("a/set", {"README.md": CARD, "de/0.parquet": b"", "fr/0.parquet": b""})
    for told, (_, complaint) in zip(hub_sets(*(source for source, _ in ABSENT)), ABSENT, strict=True):
        assert told.startswith(complaint)
        assert "\n" not in told


def test_raw_files_of_a_set_with_a_loading_script(put, hub_rows) -> None:
    put("a/set", {"set.py": b"raise SystemExit", "lists/b.json": b'[{"n": 2}]', "lists/a.json": b'[{"n": 1}]'})
    found = hub_rows(HubSource("a/set", "main", "test", files=("lists/*.json",)))
    assert found["rows"] == [{"n": 1, "_file": "a"}, {"n": 2, "_file": "b"}]


def test_a_set_with_a_loading_script_is_read_from_its_parquet_copy(hub, put, hub_rows, tmp_path) -> None:
    put("a/set", {"set.py": b"raise SystemExit"})
    assert "has no parquet copy" in hub_rows(HubSource("a/set", "main", "test"))
    put("a/set", {"main/test/0000.parquet": parquet([{"q": "None"}], tmp_path)}, "converted")
    found = hub_rows(HubSource("a/set", "main", "test"))
    assert plain(found["rows"]) == [{"q": "None"}]
    assert found["revision"] == hub.commit("a/set", "converted")


def test_gated_sets_say_how_to_get_in(hub, put, hub_sets) -> None:
    put("a/set", {"test.jsonl": LINES})
    hub.gated.add("a/set")
    found, hidden = hub_sets(SOURCE, HubSource("a/hidden", "default", "test", gated=True))
    assert found == (
        f"a/set is gated: accept its terms at {hub.url}/datasets/a/set, then set HF_TOKEN to a token of that account "
        "or run `hf auth login`"
    )
    assert "gated" in hidden


def test_a_set_that_was_renamed_is_found(hub, put, hub_rows) -> None:
    put("b/new", {"test.jsonl": LINES})
    hub.moved["a/set"] = "b/new"
    assert plain(hub_rows(SOURCE)["rows"]) == ROWS


def test_the_second_time_needs_no_network(hub, put, hub_rows, hub_sets) -> None:
    put("a/set", {"test.jsonl": LINES, "README.md": b"---\nlicense: mit\n---\n"})
    first = hub_rows(SOURCE)
    asked = len(hub.seen)
    again, found = hub_sets(SOURCE, HubSource("a/other", "default", "test"), HF_HUB_OFFLINE="1")
    assert len(hub.seen) == asked
    assert (again["rows"], again["revision"]) == (first["rows"], first["revision"])
    assert found.startswith("a/other is not in the cache")
    assert found.endswith("fetch it once without HF_HUB_OFFLINE")


def test_what_is_cached_is_not_fetched_again_and_a_new_commit_is(hub, put, hub_rows) -> None:
    put("a/set", {"test.jsonl": LINES})
    hub_rows(SOURCE)
    hub.seen.clear()
    hub_rows(SOURCE)
    assert not any(line.startswith("GET /datasets/") for line in hub.seen)
    put("a/set", {"test.jsonl": b'{"n": 2}\n'})
    assert plain(hub_rows(SOURCE)["rows"]) == [{"n": 2}]


def test_a_large_file_goes_on_where_it_was_cut(hub, put, hub_rows) -> None:
    """The hub's library writes pieces of 10 MiB."""
    text = random.Random(1).randbytes(6 << 20).hex()
    put("a/set", {"test.jsonl": json.dumps({"text": text}).encode()})
    hub.cut_at = 11 << 20
    found = hub_rows(SOURCE)
    assert found["rows"][0]["text"] == text
    assert [line for line in hub.seen if "bytes=10485760-" in line], hub.seen
    name, done, total = found["told"][-1]
    assert (name, done, total) == ("test.jsonl", len(text) + 12, len(text) + 12)


def test_a_damaged_card_is_one_line(put, hub_rows) -> None:
    put("a/set", {"README.md": b"---\n: [\n---\n", "test.jsonl": LINES})
    assert hub_rows(SOURCE).startswith("the README.md of a/set is not readable (")


SAME = """
import json, sys
import datasets
builder = datasets.load_dataset_builder("a/set", sys.argv[1] or None)
print(json.dumps({str(split): sorted(f.rpartition("@")[2].partition("/")[2] for f in files)
                  for split, files in builder.config.data_files.items()}))
"""


LAYOUTS = [
    ["test.csv", "train.csv"],
    ["data/test-00000-of-00002.csv", "data/test-00001-of-00002.csv", "data/dev_x-00000-of-00001.csv"],
    ["dev/a.csv", "test/b.csv"],
    ["a_test.csv", "a-train.csv", "b.valid.csv"],
    ["latest.csv"],
]
TESTS = [["test.csv"], LAYOUTS[1][:2], ["test/b.csv"], ["a_test.csv"], ["latest.csv"]]
"""What the `datasets` library takes for the split `test` of each layout; `train` of the last, which names none."""


def layout(place: int) -> dict[str, bytes]:
    return dict.fromkeys(LAYOUTS[place], b"id,text\n1,x\n")


def files_of(found) -> list[str]:
    return sorted({place.split(" ")[1].rpartition(":")[0] for place in found["places"]})


def test_splits_are_found_in_every_layout(put, hub_sets) -> None:
    for place in range(len(LAYOUTS)):
        put(f"a/set{place}", layout(place))
    splits = ["test", "test", "test", "test", "train"]
    found = hub_sets(*(HubSource(f"a/set{place}", "default", split) for place, split in enumerate(splits)))
    assert [files_of(one) for one in found] == TESTS


@pytest.mark.slow("oracles")
@pytest.mark.parametrize("place", range(len(LAYOUTS)))
def test_splits_are_those_that_the_datasets_library_finds(put, hub_environment, hub_rows, place) -> None:
    put("a/set", layout(place))
    done = subprocess.run(
        [sys.executable, "-c", SAME, ""], capture_output=True, text=True, env=hub_environment, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    for split, files in json.loads(done.stdout.splitlines()[-1]).items():
        assert files_of(hub_rows(HubSource("a/set", "default", split))) == files
