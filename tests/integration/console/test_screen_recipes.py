"""A recipe on a real node: its funnel, from a reason to the samples, and an original beside its rewriting."""

import json
import re
from pathlib import Path
from typing import Any

import fake_judge
import pytest

SUMS = {
    "Anna has nine apples and eats four of them on a sunny afternoon; how many are left?": "5",
    "A train has twelve waggons, and three of them stay behind in the station; how many go on?": "9",
    "How many legs have six spiders that live behind the green shutter of the mill?": "48",
}
RIGHT = {question: answer for question, answer in SUMS.items() if "spiders" not in question}
RECIPE = """
[[sample]]
models = ["builtin"]
datasets = ["own_sums"]
kinds = ["free_response.chat"]

[rewrite]
rule = "thought-solution"

[select]
rule = "first-correct"
"""
ATTEMPT = re.compile(r"<attempt-[0-9a-f]+>\n(.*)\n</attempt-", re.DOTALL)
THOUGHT = "Let me see. I count them one by one, then once more backwards to be sure."


def writes(asked: Any) -> Any:
    """What the writer replies: the trains' attempt in the form that was asked for, any other without one."""
    found = ATTEMPT.search(asked.prompt)
    if found is None or "{9}" not in found[1]:
        return fake_judge.Do("no form at all")
    text = f"<|begin_of_thought|>\n\n{THOUGHT}\n\n<|end_of_thought|>\n\n"
    return fake_judge.Do(f"{text}<|begin_of_solution|>\n\nIt is \\boxed{{9}}.\n\n<|end_of_solution|>")


@pytest.fixture
def done(new_node: Any, tmp_path: Path) -> Any:
    """A node on which recipe r1 is done: of three samples one is wrong, and one could not be rewritten."""
    with fake_judge.in_thread(fake_judge.FakeJudge(behave=writes)) as server:
        node = new_node()
        folder = tmp_path / "config" / "rwkvctl"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(f'[writer]\nbase_url = "{server.url}"\nmodel = "scribe"\nbudget = 5.0\n')
        node.settings |= {"XDG_CONFIG_HOME": str(tmp_path / "config")}
        node.start()
        rows = tmp_path / "sums.jsonl"
        rows.write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in SUMS.items()))
        node.cli("data", "own", str(rows), "--training")
        said = {question: RIGHT.get(question, "6") for question in SUMS}
        node.engines_do(texts={q[:30]: f" {THOUGHT} The answer is \\boxed{{{a}}}." for q, a in said.items()})
        recipe = tmp_path / "sky.toml"
        recipe.write_text(RECIPE)
        node.cli("recipe", "run", str(recipe), "--wait")
        yield node


async def test_a_reason_leads_to_samples_and_a_sample_to_its_original(done: Any, pressing: Any) -> None:
    async with pressing(done, size=(170, 44)) as hands:
        paid = "paid to  writer: 440 tokens, price not set; budget left 5.00"
        await hands.press("T", see=("1 recipe", "r1", "sky.toml", "✓ done", "Funnel of r1", "first-correct", paid))
        assert re.search(r"right +samples +3 +2 +1", hands.text)
        assert re.search(r"rewrite +samples +2 +1 +1", hands.text)
        await hands.press("enter", "j", "j", "enter", see=("reason:=wrong", "1 of 3"))
        assert hands.app.frame.view.command() == "rwkvctl samples j1 --reason wrong"
        await hands.press("left_square_bracket", see="Funnel of r1")
        await hands.press("j", "j", "enter", see="reason:=form")
        await hands.press("enter", see=("no form at all", "eats four", f"{THOUGHT[:20]}", "beside j1 sample"))
        await hands.press("d")
        await hands.gone("beside")


async def test_the_key_pauses_on_the_node_and_resumes(done: Any, pressing: Any, tmp_path: Path) -> None:
    done.engines_do(answers=0)
    (tmp_path / "slow.toml").write_text(RECIPE.replace("[[sample]]", "[[sample]]\nseed = 9"))
    done.cli("recipe", "run", str(tmp_path / "slow.toml"))
    async with pressing(done) as hands:
        await hands.press("T", see=("2 recipes, 1 at work", "◌ waiting"))
        await hands.press("p", see=("r2 slow.toml: paused", "‖ paused"))
        assert done.api.get("/v1/recipes/r2").value["recipe"]["state"] == "paused"
        assert hands.app.commands[-1] == "rwkvctl recipe pause r2"
        await hands.press("p", see="r2 slow.toml: waiting")
        await hands.press("s", see="Stop r2?")
        await hands.press("y", see="r2 slow.toml: stopped")
