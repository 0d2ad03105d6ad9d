"""Mixes on a live node: rows of recipes and of files of one's own, cleaned, drawn and put in a seeded order."""

import json

import pytest
from sums_recipes import PROBLEMS as SUMS
from sums_recipes import prepare, ran, recipe_file, shown

pytestmark = pytest.mark.slow("recipes")

APPLES = next(iter(SUMS))
SELECT = """
[[sample]]
models = ["builtin"]
datasets = ["own_sums"]
kinds = ["free_response.chat"]
settings = {k = 1}

[select]
rule = "all-correct"
"""
PAIRS = '[pairs]\nrules = ["short-long"]\n'
MIX = """
seed = 7

[[mix]]
recipe = "r1"

[[mix]]
rows = "chat"
limit = 5
"""


@pytest.fixture(scope="module")
def node(module_node, tmp_path_factory):
    """A node on which r1 has made four rows, and ten rows of a chat are kept."""
    found = module_node().start()
    prepared(found, tmp_path_factory.mktemp("rows"))
    return found


def prepared(node, folder):
    prepare(node, folder, "sums", SUMS)
    answer(node)
    assert ran(node, folder, SELECT)["rows"] == 4
    kept(node, folder, "chat", map(greeting, range(10)))


def answer(node, **wanted):
    node.engines_do(**wanted, texts={q[:30]: f" The answer is \\boxed{{{a}}}." for q, a in SUMS.items()})


def greeting(number):
    said = (("user", f"Greet visitor number {number}."), ("assistant", f"Welcome, visitor {number}, to this house."))
    return {"messages": [{"role": role, "content": text} for role, text in said]}


def kept(node, folder, name, rows, *words):
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return node.cli("data", "rows", str(path), *words)


def files(node, name, path):
    """The bytes of an exported recipe, with lineage and card."""
    path.parent.mkdir(exist_ok=True)
    node.cli("recipe", "export", name, "--format", "messages", "--to", str(path))
    return [path.with_name(path.name + end).read_bytes() for end in ("", ".lineage.jsonl", ".card.md")]


def test_rows_of_a_recipe_and_of_a_file_become_one_file(node, tmp_path):
    checked = node.cli("recipe", "check", recipe_file(tmp_path, MIX))
    assert "9 rows if none is dropped in cleaning" in checked.stderr
    recipe = ran(node, tmp_path, MIX)
    stages = [(stage["name"], stage["rows_in"], stage["rows_out"]) for stage in recipe["funnel"]]
    assert stages == [("clean", 14, 14), ("mix", 14, 9)]
    assert recipe["funnel"][1]["dropped"] == {"more of chat": 5}
    assert [(part["name"], part["state"], part["rows"]) for part in recipe["parts"]] == [
        ("r1", "done", 4), ("chat", "kept", 10),
    ]  # fmt: skip
    rows, lineage, card = files(node, recipe["recipe"], tmp_path / "train.jsonl")
    said = [json.loads(line)["messages"][0]["content"] for line in rows.splitlines()]
    assert sum(text.startswith("Greet") for text in said) == 5
    assert said != sorted(said, key=lambda text: text.startswith("Greet")), "the parts do not stand one after the other"
    lines = list(map(json.loads, lineage.splitlines()))
    assert {line["row_id"].split("/")[0] for line in lines} == {"own_sums", "chat"}
    assert all(line["samples"] or line["row_id"].startswith("chat/") for line in lines)
    assert b"| part chat \\(chat\\) | taken | 5 |" in card or b"| part chat (chat) | taken | 5 |" in card
    assert "4 samples compared" in node.cli("recipe", "verify", str(tmp_path / "train.jsonl")).stderr


def test_the_same_mix_gives_the_same_bytes_and_another_seed_another_order(node, tmp_path):
    first, second = (ran(node, tmp_path, MIX)["recipe"] for _ in range(2))
    one, two = (files(node, name, tmp_path / name / "train.jsonl") for name in (first, second))
    assert one == two
    other = files(node, ran(node, tmp_path, MIX.replace("seed = 7", "seed = 8"))["recipe"], tmp_path / "o" / "t.jsonl")
    assert sorted(one[0].splitlines()) != one[0].splitlines() != other[0].splitlines()


def test_a_row_of_a_benchmark_in_a_file_is_caught(node, tmp_path):
    smuggled = [
        {"conversations": [{"from": "human", "value": APPLES.upper()}, {"from": "gpt", "value": "5"}]},
        {"conversations": [{"from": "human", "value": f"Tell me. {APPLES}"}, {"from": "gpt", "value": "5"}]},
        {"conversations": [{"from": "human", "value": "Say hello to all of them."}, {"from": "gpt", "value": "hi"}]},
    ]
    kept(node, tmp_path, "smuggled", smuggled)
    (tmp_path / "held.jsonl").write_text(json.dumps({"question": APPLES, "answer": "5"}) + "\n")
    node.cli("data", "own", str(tmp_path / "held.jsonl"), "--name", "held")
    try:
        recipe = ran(node, tmp_path, '[[mix]]\nrecipe = "r1"\n[[mix]]\nrows = "smuggled"\n')
    finally:
        (node.home / "data" / "own_held" / "manifest.json").unlink()
    assert recipe["funnel"][0]["dropped"] == {"near own_held": 3}, "a row of r1, and two of the file"
    assert recipe["rows"] == 4
    dropped = node.cli("recipe", "show", recipe["recipe"], "--dropped").stdout
    assert "smuggled/0" in dropped
    assert "own_sums/0" in dropped


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[mix]]\nrecipe = "r99"\n', "there is no recipe r99"),
        ('[[mix]]\nrows = "nothing"\n', "there are no rows nothing: `rwkvctl data rows FILE --name nothing`"),
        ('[[mix]]\nrows = "pairs"\n[[mix]]\nrecipe = "r1"\n', "pairs has pairs, and r1 has rows with one answer"),
        ('[[mix]]\nrows = "chat"\n[select]\nrule = "all-correct"\n', "a setting of samples"),
        ('[[mix]]\nrows = "chat"\nlimit = 3\nweight = 2\n', "a limit and a weight"),
        ('[[mix]]\nrows = "chat"\nwieght = 2\n', "wieght"),
        ("[[mix]]\nlimit = 3\n", 'needs either recipe = "r3" or rows = "chat"'),
        (f"seed = 3\n{SELECT}", "seed belongs to [[mix]]"),
    ],
)
def test_a_mix_that_cannot_be_made_ends_in_a_sentence(node, tmp_path, text, says):
    kept(node, tmp_path, "pairs", [{"prompt": "Say one.", "chosen": "one", "rejected": "two"}], "--replace")
    before = node.api.get("/v1/recipes").value["items"]
    found = node.cli("recipe", "run", recipe_file(tmp_path, text), check=False)
    assert found.returncode != 0
    assert says in found.stderr
    assert "Traceback" not in found.stderr
    assert node.api.get("/v1/recipes").value["items"] == before


def test_a_mix_is_no_part_of_another_one(node, tmp_path):
    name = ran(node, tmp_path, MIX)["recipe"]
    found = node.cli("recipe", "run", recipe_file(tmp_path, f'[[mix]]\nrecipe = "{name}"\n'), check=False)
    assert (found.returncode, f"{name} is a mix itself: name r1 and chat instead" in found.stderr) == (5, True)


def test_a_mix_waits_for_its_recipes(new_node, tmp_path):
    node = new_node().start()
    prepared(node, tmp_path)
    answer(node, answers=0)
    node.cli("recipe", "run", recipe_file(tmp_path, SELECT.replace("k = 1", "k = 1, seed = 5")))
    node.cli("recipe", "run", recipe_file(tmp_path, MIX.replace("r1", "r2")))
    node.until(lambda: shown(node, "r3").get("detail") == "waits for r2", "it says what it waits for")
    assert shown(node, "r3")["mixes"] == ["r2", "chat"]
    assert "r2 chat" in node.cli("recipe", "list", "-o", "table").stdout
    node.cli("recipe", "stop", "r2")
    told = "r2 is stopped: `rwkvctl recipe resume r2`"
    node.until(lambda: shown(node, "r3").get("detail") == told, "it says what to do")
    refused = node.cli("recipe", "run", recipe_file(tmp_path, MIX.replace("r1", "r2")), check=False)
    assert (refused.returncode, told in refused.stderr) == (5, True)
    node.cli("recipe", "resume", "r2")
    answer(node)
    node.until(lambda: shown(node, "r3")["state"] == "done", "its rows are made")
    assert shown(node, "r3")["rows"] == 9


def test_a_mix_of_a_recipe_that_is_gone_fails_and_says_so(node, tmp_path):
    name = ran(node, tmp_path, SELECT)["recipe"]
    node.cli("recipe", "run", recipe_file(tmp_path, MIX.replace("r1", name)))
    mix = node.api.get("/v1/recipes", limit=1).value["items"][0]["recipe"]
    node.until(lambda: shown(node, mix)["state"] == "done", "its rows are made")
    node.cli("recipe", "delete", name)
    assert shown(node, mix)["parts"][0]["state"] == "missing"
    assert files(node, mix, tmp_path / "train.jsonl"), "its own rows are still there"


@pytest.mark.parametrize(
    "point",
    [
        "rows-before-renaming",
        *(pytest.param(one, marks=pytest.mark.slow("kills")) for one in ("after-start", "before-done")),
    ],
)
def test_whatever_is_killed_the_mix_is_the_same(new_node, tmp_path, point):
    node = new_node().start()
    prepared(node, tmp_path)
    node.kill()
    node.start(RWKVCTL_CRASH_AT=f"recipe-{point}")
    node.cli("recipe", "run", recipe_file(tmp_path, MIX))
    if point.startswith("rows-"):
        node.until(lambda: shown(node, "r2")["state"] == "failed", "the process of the mix is gone")
    else:
        node.until(lambda: node.daemon.poll() is not None, "the daemon is gone")
    node.kill()
    node.start()
    if point.startswith("rows-"):
        node.cli("recipe", "resume", "r2")
    node.until(lambda: shown(node, "r2")["state"] == "done", "the rows are made")
    again = ran(node, tmp_path, MIX)["recipe"]
    assert files(node, "r2", tmp_path / "1" / "t.jsonl") == files(node, again, tmp_path / "2" / "t.jsonl")
