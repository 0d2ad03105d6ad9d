"""Which checkpoint came before which."""

from rwkv_daemon.catalogue.checkpoint_order import with_lineage
from rwkvctl.protocol.views import ModelView


def view(name: str, size: float | None = 0.4, version: str = "", date: str = "") -> ModelView:
    return ModelView(name=name, path=f"/w/{name}", size_bytes=1, parameters_b=size, data_version=version, date=date)


def previous(found: list[ModelView]) -> dict[str, str]:
    return {one.name: one.previous for one in found}


def test_the_scored_model_of_the_same_size_before_it() -> None:
    found = [
        view("d", version="g1d", date="20260210"), view("a", version="g1a", date="20250905"),
        view("large", 7.2, "g1a", "20250905"), view("unscored", version="g1b"),
        view("a-later", version="g1a", date="20251101"),
    ]  # fmt: skip
    made = with_lineage(found, {"d": 9, "a": 3, "large": 2, "a-later": 4})
    assert previous(made) == {"d": "a-later", "a-later": "a", "unscored": "a-later", "a": "", "large": ""}
    assert [one.name for one in made] == ["large", "a", "a-later", "unscored", "d"], "the oldest first"


def test_a_data_version_outranks_a_date_and_what_is_alike_was_measured_first() -> None:
    made = with_lineage([view("g0b", version="g0b", date="20260101"), view("g1", version="g1", date="20250101")],
                        {"g0b": 1, "g1": 2})  # fmt: skip
    assert previous(made) == {"g0b": "", "g1": "g0b"}
    made = with_lineage([view("x"), view("y")], {"x": 7, "y": 3})
    assert previous(made) == {"y": "", "x": "y"}


def test_a_model_without_a_file_is_read_by_its_name_and_one_without_a_size_comes_before_any() -> None:
    old, new = "rwkv7-g0-0.4b-20250101", "rwkv7-g1-0.4b-20260801"
    made = with_lineage([view(new, 0.4, "g1", "20260801")], {old: 1, new: 2, "own": 3})
    assert previous(made) == {"own": "", old: "own", new: old}
    gone = next(one for one in made if one.name == old)
    assert (gone.path, gone.parameters_b, gone.data_version, gone.date) == ("", 0.4, "g0", "20250101")


def test_a_model_whose_scores_were_given_comes_before_and_after_none() -> None:
    found = [view("a", version="g1a"), view("c", version="g1c")]
    made = with_lineage(
        found, {"a": 1, "c": 2, "qwen-0.4b": 3, "rwkv7-g1b-0.4b": 4}, given={"qwen-0.4b", "rwkv7-g1b-0.4b"}
    )
    assert previous(made) == {"a": "", "c": "a", "qwen-0.4b": "", "rwkv7-g1b-0.4b": ""}


def test_every_model_names_the_baseline_that_is_pinned_for_it_and_still_its_predecessor() -> None:
    made = with_lineage([view("a", version="g1a"), view("b", version="g1b")], {"a": 1, "b": 2, "gone": 3},
                        lambda model: "" if model == "a" else "a")  # fmt: skip
    assert {one.name: one.baseline for one in made} == {"a": "", "b": "a", "gone": "a"}
    assert previous(made)["b"] == "a"
    assert {one.baseline for one in with_lineage([view("a")], {"a": 1})} == {""}
