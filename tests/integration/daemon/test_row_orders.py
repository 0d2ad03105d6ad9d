"""Orders of rows on a live node: made of finished jobs, written to files, and asked by `--set order=FILE`."""

import json
import re
from collections import defaultdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from training_run import TrainingRun

JOBS = ("j1", "j2", "j3")
DISPATCH = ("dispatch", "--models", "builtin", "--only-datasets", "demo_arith")


@pytest.fixture(scope="module")
def node(module_node: Any) -> Any:
    """A node with a job of each of three models over the same sums, of which each model gets others right."""
    node = module_node()
    models = TrainingRun(node.home / "weights")
    for name, right in (("low", 64), ("middle", 128), ("high", 192)):
        models.write(f"{name}.pth", right=right)
    node.start()
    for name in ("high", "middle", "low"):
        (job,) = node.dispatch(models=[name], settings={"k": "2"})
        node.wait_for_state(job, "done")
    return node


def counts(node: Any, *jobs: str) -> dict[str, list[int]]:
    """Right samples and samples of each row, counted one by one."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for job in jobs:
        for sample in node.samples(job):
            found[sample["row_id"]][0] += sample["value"] == 1
            found[sample["row_id"]][1] += sample["value"] is not None
    return found


def easiest_first(found: dict[str, list[int]]) -> list[str]:
    return sorted(found, key=lambda row: (-Fraction(*found[row]), row))


def ordered(node: Any, *words: str) -> dict[str, Any]:
    return dict(json.loads(node.cli("order", *words, "--json").stdout))


def refused(node: Any, *words: str) -> str:
    """What a refused command says."""
    found = node.cli(*words, check=False)
    assert found.returncode, found.stdout
    return str(found.stderr).removeprefix("rwkvctl: ").strip()


def asked_of(node: Any, job: str) -> list[str]:
    """The rows that a job asked, in its order, each once."""
    samples = sorted(node.samples(job), key=lambda sample: (sample["row"], sample["repeat"]))
    return list(dict.fromkeys(sample["row_id"] for sample in samples))


def dispatched(node: Any, *words: str) -> dict[str, Any]:
    """The finished job of a `dispatch` of the sums."""
    found = json.loads(node.cli(*DISPATCH, *words, "--json").stdout)
    (job,) = found["jobs"] or [row["job"] for row in found["plan"]["rows"]]
    return dict(node.wait_for_state(job, "done"))


def test_rows_are_ordered_by_the_share_of_right_samples(node: Any) -> None:
    for jobs in (["j1"], ["j1", "j3", "j2"]):
        known, found = counts(node, *jobs), ordered(node, *jobs)
        assert [row["id"] for row in found["rows"]] == easiest_first(known)
        assert {row["id"]: [row["right"], row["n"]] for row in found["rows"]} == known
        assert all(row["pass_rate"] == row["right"] / row["n"] for row in found["rows"])
        assert (found["benchmark"], found["by"], found["asked"], found["left_out"]) == (
            "demo_arith", "pass-rate", len(known), {},
        )  # fmt: skip
        assert [job["id"] for job in found["jobs"]] == jobs
    assert len({row["pass_rate"] for row in found["rows"]}) == 4, "none, one, two or three of the models are right"


def test_a_band_leaves_out_what_is_too_easy_or_too_hard_and_says_how_many(node: Any) -> None:
    known = counts(node, *JOBS)
    rates = {row: Fraction(*found) for row, found in known.items()}
    low, high = Fraction(1, 3), Fraction(2, 3)
    found = ordered(node, *JOBS, "--band", str(float(low)), str(float(high)))
    assert found["rows"]
    assert [row["id"] for row in found["rows"]] == [row for row in easiest_first(known) if low <= rates[row] <= high]
    assert found["rows"][0]["pass_rate"] == 4 / 6
    above, below = sum(rate > high for rate in rates.values()), sum(rate < low for rate in rates.values())
    assert found["left_out"] == {"above the band": above, "below the band": below}
    said = refused(node, "order", "j1", "--band", "0.4", "0.6")
    right = sum(row[0] == row[1] for row in counts(node, "j1").values())
    assert said == (
        f"No row of demo_arith would be in the order: of {len(known)} rows asked, {right} above the band, "
        f"{len(known) - right} below the band."
    )


def test_a_file_is_asked_in_its_order_and_the_same_order_is_the_same_work(node: Any, tmp_path: Path) -> None:
    known, file = easiest_first(counts(node, *JOBS)), tmp_path / "arith.order.txt"
    said = node.cli("order", *JOBS, "--band", "0.1", "0.9", "--to", str(file)).stdout
    rows = file.read_text().removesuffix("\n").split("\n")
    beside = json.loads((tmp_path / "arith.order.txt.json").read_text())
    assert [row["id"] for row in beside["rows"]] == rows == [row for row in known if row in set(rows)]
    assert beside["schema"] == "rwkvctl.order/1"
    assert f"{len(rows)} of {len(known)} rows of demo_arith by pass-rate, the highest first" in said
    command = said.rstrip("\n").split("\n")[-1].partition("rwkvctl ")[2]
    assert command == (
        f"dispatch --models high middle low --only-datasets demo_arith --only-jobs free_response --set order={file}"
    )
    again = refused(node, "order", "j1", "--to", str(file))
    assert again.endswith("already exists and was not changed. --force replaces it.")

    rows.reverse()
    hardest = tmp_path / "hardest"
    hardest.write_text("\r\n".join([*rows, "", ""]))
    job = dispatched(node, "--set", f"order={hardest}", "k=2")
    assert asked_of(node, job["id"]) == rows
    assert job["total"] == 2 * len(rows)
    assert re.fullmatch(r"order=row-order@[0-9a-f]{8}", job["picks"])
    assert job["score"]["partial"]
    labels = job["picks"].removeprefix("order=")
    assert f"the rows were asked in the order of {labels}" in job["score"]["warnings"]
    hardest.write_text("\n".join(row.rpartition("/")[2] for row in rows))
    assert dispatched(node, "--set", f"order={hardest}", "k=2")["id"] == job["id"], "it is the same order"
    limited = dispatched(node, "--set", f"order={hardest}", "k=2", "--limit", "3")
    assert asked_of(node, limited["id"]) == rows[:3]

    compared = node.api.post("/v1/compare", {"a": job["id"], "b": "j1", "force": True}).value["items"][0]
    assert compared["why"].startswith("their row numbers may mean other rows, as order differ")
    differ = node.cli("samples", "diff", job["id"], "j1", "--row", "0").stderr
    assert f"these are different rows: row 0 is {rows[0]} in {job['id']} and demo_arith/0 in j1" in differ
    repeated = node.api.get(f"/v1/jobs/{job['id']}/repro").value
    assert repeated["same"], repeated["differs"]
    assert job["picks"] in repeated["argv"]
    plan = node.cli("queue", *DISPATCH[1:], "--set", f"order={hardest}", "k=2", "--json").stdout
    assert json.loads(plan)["rows"][0]["job"] == job["id"]
    by_place = ordered(node, "j1", "--by", labels, "--band", "2", "4")
    assert [row["id"] for row in by_place["rows"]] == rows[1:4]
    assert [row["value"] for row in by_place["rows"]] == [2, 3, 4]
    assert by_place["by"] == labels
    stored = [path.stat().st_mtime_ns for path in sorted(node.home.glob("data/demo_arith/labels/*"))]
    node.cli("queue", *DISPATCH[1:3], "--benchmarks", "Demo-Arith", "--set", f"order={hardest}")
    assert [path.stat().st_mtime_ns for path in sorted(node.home.glob("data/demo_arith/labels/*"))] == stored
    assert by_place["left_out"] == {"above the band": len(rows) - 4, "below the band": 1} | (
        {"without a number": len(known) - len(rows)} if len(known) > len(rows) else {}
    )


def test_a_full_order_leaves_nothing_out(node: Any, tmp_path: Path) -> None:
    file = tmp_path / "all.txt"
    node.cli("order", *JOBS, "--to", str(file))
    job = dispatched(node, "--set", f"order={file}")
    assert asked_of(node, job["id"]) == easiest_first(counts(node, *JOBS))
    assert not job["score"].get("partial")
    assert not any("only" in warning for warning in job["score"]["warnings"])


def test_an_order_whose_labels_were_removed_is_named_and_made_again(node: Any, tmp_path: Path) -> None:
    file = tmp_path / "two.txt"
    file.write_text("demo_arith/1\ndemo_arith/0\n")
    job = dispatched(node, "--set", f"order={file}")
    labels = next(node.home.glob(f"data/demo_arith/labels/{job['picks'].partition('=')[2]}*.jsonl"))
    labels.rename(tmp_path / labels.name)
    pinned = job["picks"]
    assert f"there are no labels '{pinned.partition('=')[2]}' for these rows" in refused(
        node, *DISPATCH, "--set", pinned, "k=5"
    )
    assert refused(node, "order", job["id"]).startswith(f"which rows of demo_arith {job['id']} asked cannot be told")
    assert node.job(job["id"])["score"] == job["score"]
    assert dispatched(node, "--set", f"order={file}")["id"] == job["id"], "the file makes the same labels again"


def test_lines_that_name_no_row_or_one_twice_are_named(node: Any, tmp_path: Path) -> None:
    before, file = node.api.get("/v1/jobs").value["items"], tmp_path / "o.txt"

    def said(text: bytes) -> str:
        file.write_bytes(text)
        found = node.cli(*DISPATCH, "--set", f"order={file}", check=False)
        assert found.returncode == 2, found.stderr
        return str(found.stderr).removeprefix("rwkvctl: ").strip()

    assert said(b"demo_arith/1\ndemo_arith/900\n\ndemo_arith/0\ndemo_arith/1\n") == (
        f"{file}: line 2: demo_arith has no row 'demo_arith/900'; line 5: 'demo_arith/1' is the row of line 1 already."
    )
    assert said(b"\n\n") == f"{file}: no line names a row."
    assert said(b"\xff\xfe") == f"--set order={file}: the file is no UTF-8 text."
    said_twice = refused(node, *DISPATCH, "--only-datasets", "demo_arith", "--set", "order=row-order")
    assert "the rows have no field 'row-order'" in said_twice, "an order is meant by its version"
    several = refused(node, *DISPATCH, "gsm8k", "--set", f"order={file}")
    assert "a file orders the rows of one benchmark; name it with --only-datasets" in several
    unknown = refused(node, *DISPATCH, "--set", "order=hardness")
    assert "order: the rows have no field 'hardness' that is a number" in unknown
    assert unknown.endswith("; for a file of that name `dispatch` takes --set order=./hardness.")
    assert node.api.get("/v1/jobs").value["items"] == before


def test_the_list_of_labels_has_the_last_orders_of_many(node: Any, tmp_path: Path) -> None:
    file = tmp_path / "o.txt"
    for number in range(5):
        file.write_text(f"{number + 20}\n")
        node.cli("queue", *DISPATCH[1:], "--set", f"order={file}")
    stored = len([*node.home.glob("data/demo_arith/labels/row-order@*.jsonl")])
    lines = node.cli("benchmarks", "show", "demo_arith").stdout.split("\n")
    shown = [line for line in lines if line.startswith("labels for where and order: row-order@")]
    assert len(shown) == 3
    assert all("(number), 1 of 300 rows, order-file/1 from an order of rows, 20" in line for line in shown)
    assert f"{stored - 3} older orders of rows are there, too" in lines


def test_what_gives_no_order_is_refused_in_a_sentence(node: Any) -> None:
    assert refused(node, "order", "j1", "--by", "hardness").startswith("--by: the rows have no field 'hardness'")
    (other,) = node.dispatch(only_datasets=["demo_choice"], limit=2)
    node.wait_for_state(other, "done")
    assert refused(node, "order", "j1", other) == f"{other} asked demo_choice, not demo_arith."
    assert refused(node, "order", "j404").startswith("There is no job j404.")
