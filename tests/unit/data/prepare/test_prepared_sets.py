"""Prepared rows: written whole, read verified, named when damaged."""

import contextlib
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_data.definition import registry, rows
from rwkv_data.definition.errors import PrepareError, RowError, RowsDamagedError, RowsMissingError
from rwkv_data.definition.few_shot import FewShot
from rwkv_data.definition.kind import Kind
from rwkv_data.labels.order_file import publish_order
from rwkv_data.prepare import prepared_sets, writer
from rwkv_data.prepare.prepare import prepare
from rwkv_data.prepare.sources.raw import Progress

GSM8K = replace(registry.load("gsm8k"), pool=None, pool_files=(), pool_from_source=None)
RAW = [
    {"question": "How much?", "answer": "2 + 1 = 3\n#### 3"},
    {"question": "线\u2028和\x85\f?", "answer": "#### -1,234"},
]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "raw" / "test.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(raw) + "\n" for raw in RAW))
    return path


@pytest.fixture
def data_dir(tmp_path, source):
    prepare("gsm8k", tmp_path / "data", source)
    return tmp_path / "data"


def test_rows_come_back_as_converted(data_dir) -> None:
    assert prepared_sets.load_rows(data_dir, GSM8K) == [
        {"question": "How much?", "answer": "3", "solution": "2 + 1 = 3"},
        {"question": "线\u2028和\x85\f?", "answer": "-1234", "solution": ""},
    ]


def test_the_manifest_says_what_they_are(data_dir, source) -> None:
    manifest = prepared_sets.read_manifest(data_dir, "gsm8k")
    assert manifest is not None
    content = (data_dir / "gsm8k" / "test.jsonl").read_bytes()
    assert manifest.sha256 == hashlib.sha256(content).hexdigest()
    assert (manifest.benchmark, manifest.split, manifest.rows, manifest.rows_complete) == ("gsm8k", "test", 2, 1319)
    assert not manifest.complete
    assert manifest.source == "test.jsonl"
    assert manifest.revision == "sha256:" + hashlib.sha256(source.read_bytes()).hexdigest()
    assert (manifest.format, manifest.benchmark_version, manifest.licence) == (3, GSM8K.version, "MIT")
    assert manifest.created.endswith("+00:00")


def test_preparing_again_gives_the_same_bytes_and_leaves_nothing_else(data_dir, source) -> None:
    before = prepared_sets.read_manifest(data_dir, "gsm8k")
    prepare("gsm8k", data_dir, source.parent)
    after = prepared_sets.read_manifest(data_dir, "gsm8k")
    assert before is not None
    assert after is not None
    assert after.sha256 == before.sha256
    assert sorted(path.name for path in (data_dir / "gsm8k").iterdir()) == [
        "fields.jsonl",
        "manifest.json",
        "test.jsonl",
    ]


def test_never_prepared(tmp_path) -> None:
    assert prepared_sets.read_manifest(tmp_path, "gsm8k") is None
    with pytest.raises(RowsMissingError, match="run `rwkvctl data prepare gsm8k`"):
        prepared_sets.load_rows(tmp_path, GSM8K)


def damaged(data_dir) -> str:
    with pytest.raises(RowsDamagedError) as caught:
        prepared_sets.load_rows(data_dir, GSM8K)
    assert "run `rwkvctl data prepare gsm8k`" in str(caught.value)
    return str(caught.value)


def test_damage_is_found_and_named(data_dir) -> None:
    path = data_dir / "gsm8k" / "test.jsonl"
    path.write_bytes(path.read_bytes().replace(b"3", b"4", 1))
    assert f"{path} is not what its manifest says" in damaged(data_dir)
    path.unlink()
    assert f"{path} is gone" in damaged(data_dir)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rows": 3}, "has 2 rows, its manifest says 3"),
        ({"format": 4}, "has format 4, this version reads 3"),
        ({"benchmark_version": 0}, f"were prepared for version 0 of the benchmark, this is {GSM8K.version}"),
        ({"sha256": 5}, "is no manifest"),
    ],
)
def test_a_manifest_that_does_not_fit(data_dir, change: dict[str, int], complaint: str) -> None:
    path = data_dir / "gsm8k" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert complaint in damaged(data_dir)


def test_rows_that_no_longer_fit_the_benchmark_are_named_by_line(data_dir) -> None:
    path, manifest = data_dir / "gsm8k" / "test.jsonl", data_dir / "gsm8k" / "manifest.json"
    lines = path.read_bytes().split(b"\n")
    content = b"\n".join([lines[0], b'{"question":"Q","answer":"many"}', b""])
    path.write_bytes(content)
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"sha256": hashlib.sha256(content).hexdigest()}))
    assert f"{path}:2: 'answer' is 'many', not a number" in damaged(data_dir)


def files_of(data_dir) -> list[str]:
    return sorted(path.name for path in (data_dir / "gsm8k").iterdir())


def bad(source):
    source.write_text(source.read_text() + '{"question": "Q", "answer": "none"}\n')
    return source


def test_a_bad_row_leaves_the_old_set_whole(data_dir, source) -> None:
    before = prepared_sets.load_rows(data_dir, GSM8K)
    with pytest.raises(PrepareError, match="has no '####'"):
        prepare("gsm8k", data_dir, bad(source))
    assert prepared_sets.load_rows(data_dir, GSM8K) == before
    assert files_of(data_dir) == ["fields.jsonl", "manifest.json", "test.jsonl"]


def test_a_bad_row_of_a_first_preparation_leaves_nothing(tmp_path, source) -> None:
    with pytest.raises(PrepareError):
        prepare("gsm8k", tmp_path / "new", bad(source))
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("steps", range(5))
def test_dying_while_files_are_put_in_place_leaves_one_whole_set_or_none(data_dir, source, monkeypatch, steps) -> None:
    """The old set, none, or the new one, depending on the step: manifest removed, rows and fields moved in, manifest
    moved in."""
    before = prepared_sets.load_rows(data_dir, GSM8K)
    source.write_text(json.dumps({"question": "New?", "answer": "#### 1"}))
    left = [steps]

    def dying(real):
        def step(path, *arguments, **options):
            if path.is_relative_to(data_dir):
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
            return real(path, *arguments, **options)

        return step

    for name in ("replace", "unlink"):
        monkeypatch.setattr(Path, name, dying(getattr(Path, name)))
    with contextlib.suppress(KeyboardInterrupt):
        prepare("gsm8k", data_dir, source)
    monkeypatch.undo()
    found = prepared_sets.load_rows(data_dir, GSM8K) if prepared_sets.read_manifest(data_dir, "gsm8k") else None
    new = [{"question": "New?", "answer": "1", "solution": ""}]
    assert found == {0: before, 1: None, 2: None, 3: None, 4: new}[steps]


def test_what_a_killed_preparation_left_is_swept_away(data_dir, source) -> None:
    (data_dir / "gsm8k" / ".test.jsonl.part").write_text("half a row")
    prepare("gsm8k", data_dir, source)
    assert files_of(data_dir) == ["fields.jsonl", "manifest.json", "test.jsonl"]


def test_two_preparations_of_one_set_exclude_each_other(data_dir, source) -> None:
    before = prepared_sets.load_rows(data_dir, GSM8K)
    with (
        writer.writing(data_dir, "gsm8k"),
        pytest.raises(PrepareError, match="gsm8k is being prepared by another process"),
    ):
        prepare("gsm8k", data_dir, source)
    assert prepared_sets.load_rows(data_dir, GSM8K) == before


def of_format_1(data_dir) -> None:
    path = data_dir / "gsm8k" / "manifest.json"
    new = {"left_out", "pool_rows", "pool_sha256", "pool_source", "pool_revision", "versions"}
    old = {name: value for name, value in json.loads(path.read_text()).items() if name not in new}
    path.write_text(json.dumps(old | {"format": 1}))


def test_a_manifest_of_the_format_before_is_read(data_dir) -> None:
    of_format_1(data_dir)
    assert len(prepared_sets.load_rows(data_dir, GSM8K)) == 2
    with pytest.raises(RowsMissingError, match="prepared without few-shot examples"):
        prepared_sets.load_pool(data_dir, GSM8K)


SHOTS = replace(GSM8K, pool_files=("train.jsonl",))
EXAMPLE = {"question": "Example?", "answer": "so\n#### 5"}


def test_examples_lie_beside_the_rows(tmp_path, source) -> None:
    (source.parent / "train.jsonl").write_text(json.dumps(EXAMPLE))
    for place in (source.parent, source):
        manifest = prepare(SHOTS, tmp_path / "data", place)
        assert prepared_sets.load_pool(tmp_path / "data", SHOTS) == [
            {"question": "Example?", "answer": "5", "solution": "so"}
        ]
        content = (tmp_path / "data" / "gsm8k" / "pool.jsonl").read_bytes()
        assert (manifest.pool_rows, manifest.pool_sha256) == (1, hashlib.sha256(content).hexdigest())
        assert manifest.pool_source == "train.jsonl"
        assert manifest.pool_revision.startswith("sha256:")


def test_examples_of_a_file_of_their_own_and_gone_again(tmp_path, source) -> None:
    elsewhere = tmp_path / "few.jsonl"
    elsewhere.write_text(json.dumps(EXAMPLE))
    prepare(SHOTS, tmp_path / "data", source, pool=elsewhere)
    assert len(prepared_sets.load_pool(tmp_path / "data", SHOTS)) == 1
    assert prepare(SHOTS, tmp_path / "data", source).pool_sha256 == ""
    assert files_of(tmp_path / "data") == ["fields.jsonl", "manifest.json", "test.jsonl"]
    with pytest.raises(RowsMissingError, match=r"without few-shot examples.*train\.jsonl"):
        prepared_sets.load_pool(tmp_path / "data", SHOTS)


def test_damaged_examples_are_found(tmp_path, source) -> None:
    (source.parent / "train.jsonl").write_text(json.dumps(EXAMPLE))
    prepare(SHOTS, tmp_path / "data", source)
    (tmp_path / "data" / "gsm8k" / "pool.jsonl").write_text("{}\n")
    with pytest.raises(RowsDamagedError, match=r"pool\.jsonl is not what its manifest says"):
        prepared_sets.load_pool(tmp_path / "data", SHOTS)


def test_examples_of_another_shape_are_not_checked_as_rows(tmp_path, source) -> None:
    (source.parent / "train.jsonl").write_text(json.dumps(EXAMPLE))
    texts = replace(SHOTS, pool_from_source=lambda raw: {"text": raw["question"]})
    prepare(texts, tmp_path / "data", source)
    assert prepared_sets.load_pool(tmp_path / "data", texts) == [{"text": "Example?"}]


def test_rows_that_are_left_out_are_counted(tmp_path, source) -> None:
    some = replace(GSM8K, from_source=lambda raw: None if "线" in raw["question"] else GSM8K.from_source(raw))
    manifest = prepare(some, tmp_path, source)
    assert (manifest.rows, manifest.left_out) == (1, 1)


def test_one_raw_row_becomes_several_and_notes_do_not_stay(tmp_path, source) -> None:
    twice = replace(
        GSM8K,
        expand=lambda raws: (raw | {"answer": f"#### {n}"} for raw in raws for n in (1, 2)),
        from_source=lambda raw: {**GSM8K.from_source(raw), "_file": raw["_file"], "file": raw["_file"]},
    )
    prepare(twice, tmp_path, source)
    rows = prepared_sets.load_rows(tmp_path, GSM8K)
    assert [row["answer"] for row in rows] == ["1", "2", "1", "2"]
    assert {row["file"] for row in rows} == {"test"}
    assert not any("_file" in row for row in rows)


def test_what_expand_did_not_foresee_is_named_by_place(tmp_path, source) -> None:
    broken = replace(GSM8K, expand=lambda raws: (raw["nothing"] for raw in raws))
    with pytest.raises(PrepareError, match=r"test\.jsonl:1: the row is of no known shape \(KeyError"):
        prepare(broken, tmp_path, source)


def test_a_split_without_labels_names_the_one_that_has_them(tmp_path) -> None:
    hidden = tmp_path / "hidden.jsonl"
    hidden.write_text(json.dumps({"question": "Q", "answer": ""}))
    with pytest.raises(PrepareError, match="it has no label; the split of gsm8k that has them is 'test'"):
        prepare("gsm8k", tmp_path / "data", hidden)


def test_the_first_rows_alone(data_dir) -> None:
    assert [row["answer"] for row in prepared_sets.load_rows(data_dir, GSM8K, limit=1)] == ["3"]
    assert len(prepared_sets.load_rows(data_dir, GSM8K, limit=9)) == 2


def test_progress_is_told(tmp_path, source) -> None:
    told = []
    prepare("gsm8k", tmp_path, source, report=told.append)
    size = (tmp_path / "gsm8k" / "test.jsonl").stat().st_size
    assert told == [Progress("rows", "gsm8k", 2, 1319, size)]


def test_a_place_that_cannot_be_written(tmp_path, source) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(PrepareError, match="cannot be written"):
        prepare("gsm8k", tmp_path / "data", source)


@pytest.mark.parametrize("name", ["demo_arith", "demo_choice"])
def test_built_in_rows_need_no_preparation(name: str, tmp_path) -> None:
    benchmark, manifest = registry.load(name), prepared_sets.read_manifest(tmp_path, name)
    loaded = prepared_sets.load_rows(tmp_path, benchmark)
    assert manifest is not None
    assert manifest.sha256 == hashlib.sha256(b"".join(map(rows.canonical, loaded))).hexdigest()
    assert (manifest.rows, manifest.complete, manifest.source) == (300, True, "built in")
    with pytest.raises(PrepareError, match="needs no preparation"):
        prepare(name, tmp_path)


def test_canonical_lines() -> None:
    assert rows.canonical({"b": "é\n", "a": 1}) == '{"a":1,"b":"é\\n"}\n'.encode()
    with pytest.raises(RowError, match="not Unicode"):
        rows.canonical({"a": "\ud800"})
    assert rows.canonical({"a": 10**40}) == b'{"a":1%b}\n' % (b"0" * 40)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", object()])
def test_values_that_json_cannot_say_are_row_errors(value: object) -> None:
    with pytest.raises(RowError, match="a value that JSON cannot say"):
        rows.canonical({"a": [value]})


def test_text_of_values_keeps_what_json_has_no_word_for() -> None:
    inputs = [[1, float("inf")], [10**30, "线"]]
    assert json.loads(rows.json_text(inputs)) == inputs


@given(
    choices=st.lists(st.text(max_size=5), min_size=2, max_size=26),
    seed=st.text(max_size=20),
    data=st.data(),
)
def test_shuffled_choices_keep_the_right_one(choices: list[str], seed: str, data) -> None:
    right = data.draw(st.integers(0, len(choices) - 1))
    order, letter = rows.shuffled(choices, right, seed)
    assert sorted(order) == sorted(choices)
    assert order[rows.LETTERS.index(letter)] == choices[right]
    assert rows.shuffled(choices, right, seed) == (order, letter)


def test_shuffled_choices_depend_on_the_question_alone_and_use_every_place() -> None:
    assert rows.shuffled(["right", "b", "c", "d"], 0, "What is it?") == (["c", "right", "d", "b"], "B")
    places = [rows.shuffled(["right", "b", "c", "d"], 0, f"question {n}")[1] for n in range(2000)]
    assert all(abs(places.count(letter) - 500) < 100 for letter in "ABCD")
    with pytest.raises(RowError):
        rows.shuffled(["a", "b"], 2, "")


def shown(data_dir: Path, kind: Kind, limit: int | None = None) -> list[str]:
    return [row["question"] for row in prepared_sets.load_asked(data_dir, GSM8K, kind, limit)]


@pytest.fixture
def many(tmp_path):
    """Sixty rows, with a level of 0 to 4 in their solution's place."""
    path = tmp_path / "raw" / "many.jsonl"
    path.parent.mkdir()
    lines = [{"question": f"Q{number}?", "answer": f"{number % 5}\n#### {number}"} for number in range(60)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    prepare("gsm8k", tmp_path / "data", path)
    return tmp_path / "data"


PLAIN = replace(GSM8K.default_kind, shots=None)
SETTINGS = [
    {}, {"rows": "10:20"}, {"where": "solution=3"}, {"where": "solution=3", "rows": "10:40"}, {"k": "0.3"},
    {"order": "solution"}, {"order": "solution", "part": "report", "rows": "3:50"}, {"order": "answer", "k": "0.3"},
    {"part": "report", "where": "solution>=2"}, {"k": "0.5", "part": "search", "rows": "7:50", "where": "answer!=11"},
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("limit", [None, 3, 1000])
def test_the_rows_that_are_asked_are_read_alone(many, settings, limit) -> None:
    kind = PLAIN.with_settings(settings)
    whole = prepared_sets.load_rows(many, GSM8K)
    asked = [row["question"] for row in kind.asked(whole, (), limit)]
    assert shown(many, kind, limit) == asked
    manifest = prepared_sets.current_manifest(many, GSM8K)
    assert kind.rows_asked(prepared_sets.extent_of(many, GSM8K, manifest), limit) == len(asked) > 0


def test_part_and_share_are_of_what_rows_and_where_leave(many) -> None:
    kind = PLAIN.with_settings({"rows": "0:40", "where": "solution<4"})
    inside = shown(many, kind)
    assert inside == [f"Q{number}?" for number in range(40) if number % 5 < 4]
    search, report = (shown(many, kind.with_settings({"part": part})) for part in ("search", "report"))
    assert sorted(search + report) == sorted(inside)
    assert len(search) == round(0.4 * len(inside))
    assert len(shown(many, kind.with_settings({"k": "0.25"}))) == len(inside) // 4


@pytest.mark.parametrize("pick", ["first", "sampled"])
def test_a_row_keeps_its_examples_whichever_rows_are_asked(many, pick) -> None:
    shots = FewShot(count=2, example=lambda row: row["question"], pick=pick)
    pool = [{"question": f"E{number}"} for number in range(9)]
    path = many / "gsm8k" / "pool.jsonl"
    path.write_bytes(b"".join(map(rows.canonical, pool)))
    manifest = many / "gsm8k" / "manifest.json"
    known = {"pool_rows": 9, "pool_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | known))
    benchmark = replace(GSM8K, pool_from_source=dict)
    whole = prepared_sets.load_asked(many, benchmark, replace(PLAIN, shots=shots))

    def asked(**given: str) -> list[dict[str, object]]:
        return prepared_sets.load_asked(many, benchmark, replace(PLAIN, shots=shots).with_settings(given))

    assert asked(rows="20:25") == whole[20:25]
    name = publish_order(many, benchmark, ["gsm8k/9", "gsm8k/3", "gsm8k/30"]).name
    assert asked(order=name) == [whole[9], whole[3], whole[30]]
    assert asked(where=f"{name}<=2") == [whole[3], whole[9]]
    assert asked(order="solution", rows=":7") == [whole[place] for place in (0, 5, 1, 6, 2, 3, 4)]


def test_rows_of_a_format_without_fields_are_picked_by_index_alone(many) -> None:
    path = many / "gsm8k" / "manifest.json"
    new = {"fields", "fields_sha256", "unique_ids", "training"}
    old = {name: value for name, value in json.loads(path.read_text()).items() if name not in new}
    path.write_text(json.dumps(old | {"format": 2}))
    (many / "gsm8k" / "fields.jsonl").unlink()
    extent = prepared_sets.extent_of(many, GSM8K, prepared_sets.current_manifest(many, GSM8K))
    assert shown(many, PLAIN.with_settings({"rows": "58:"})) == ["Q58?", "Q59?"]
    problem = PLAIN.with_settings({"where": "solution=3"}).rows_problem(extent)
    assert problem == "the rows were prepared without their fields: prepare them again"


def test_rows_that_nothing_is_left_of_are_told(many) -> None:
    extent = prepared_sets.extent_of(many, GSM8K, prepared_sets.current_manifest(many, GSM8K))
    kind = PLAIN.with_settings({"rows": "0:10", "where": "solution=7"})
    assert kind.rows_problem(extent) == "rows=0:10 where=solution=7 leaves none of its 60 rows"
    assert PLAIN.with_settings({"rows": "60:"}).rows_problem(extent) == "rows=60: leaves none of its 60 rows"
    assert "no field 'level'" in PLAIN.with_settings({"where": "level=7"}).rows_problem(extent)
    assert PLAIN.rows_problem(extent) == ""


def test_rows_are_named_by_their_own_id_or_their_place(many) -> None:
    manifest = prepared_sets.current_manifest(many, GSM8K)
    assert prepared_sets.ids_of_rows(many, GSM8K, manifest, [3, 59]) == ["gsm8k/3", "gsm8k/59"]
    demo = registry.load("demo_arith")
    shown = prepared_sets.read_manifest(many, demo)
    assert shown is not None
    assert prepared_sets.ids_of_rows(many, demo, shown, range(2)) == ["demo_arith/0", "demo_arith/1"]
    assert shown.fields == {"answer": "text", "question": "text"}


def test_ids_of_upstream_are_read_from_the_fields(tmp_path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    lines = [
        {"problem": f"P{number}", "solution": "s" * 300, "answer": "1", "subject": "Algebra", "level": number % 5 + 1,
         "unique_id": f"test/algebra/{number}.json"}
        for number in range(6)
    ]  # fmt: skip
    (folder / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    math, data = registry.load("math_500"), tmp_path / "data"
    manifest = prepare("math_500", data, folder)
    assert manifest.unique_ids
    assert prepared_sets.ids_of_rows(data, math, manifest, [5, 0]) == ["test/algebra/5.json", "test/algebra/0.json"]
    before = msgspec.structs.replace(manifest, format=2, fields={}, fields_sha256="", unique_ids=False)
    assert prepared_sets.ids_of_rows(data, math, before, [5]) == ["test/algebra/5.json"], "read from the rows then"
    (data / "math_500" / "test.jsonl").unlink()
    assert prepared_sets.ids_of_rows(data, math, manifest, [2]) == ["test/algebra/2.json"]
    kind = replace(math.default_kind, shots=None).with_settings({"where": "level>=4 id!=test/algebra/3.json"})
    extent = prepared_sets.extent_of(data, math, manifest)
    assert (kind.rows_asked(extent), kind.rows_problem(extent)) == (1, ""), "no row is read to plan"
