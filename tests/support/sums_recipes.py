"""What tests of recipes on live nodes do again and again: prepare problems, run a recipe and look at it, and read what
a writer is asked."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

from waiting import wait_for

from rwkv_data.prepare.prepare import prepare_own
from rwkvctl.protocol.errors import NotNowError

ATTEMPT = re.compile(r"<attempt-[0-9a-f]+>\n(.*)\n</attempt-", re.DOTALL)
REASONING = re.compile(r"<reasoning-[0-9a-f]+>\n(.*)\n</reasoning-", re.DOTALL)
EXCERPT = re.compile(r"<excerpt-[0-9a-f]+>\n(.*)\n</excerpt-", re.DOTALL)
"""What a prompt of a writer holds: a completion to rewrite, a reasoning to split, a thought to judge."""
BOX = re.compile(r"\\boxed\{([^}]*)\}")
SUMS = {
    "Anna has nine apples and eats four of them on a sunny afternoon; how many are left?": "5",
    "A train has twelve waggons, and three of them stay behind in the station; how many go on?": "9",
    "Two friends collect seven shells each on the northern island; how many have they together?": "14",
    "How many legs have six spiders that live behind the green shutter of the mill?": "48",
}
PROBLEMS = {
    "How many apples are left of nine when Anna has eaten four of them on a sunny afternoon?": "5",
    "A train has twelve waggons, and three of them stay behind in the old station of the town; how many go on?": "9",
    "Two friends collect seven shells each on the beach of the northern island; how many have they together?": "14",
    "What is the number of legs of six spiders that live behind the green shutter of the mill?": "48",
}


def prepare(node, folder, name, sums):
    """Keep problems, each with its answer, as the training set `own_NAME`, and wait until jobs over them are queued at
    once, not held until the checkpoint is hashed."""
    rows = folder / f"{name}.jsonl"
    rows.write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in sums.items()))
    prepare_own(name, rows, node.home / "data", training=True)
    node.until(
        lambda: all(one.get("sha256") for one in node.api.get("/v1/models").value["items"]), "checkpoints are hashed"
    )


def recipe_file(folder, text):
    """The path of a recipe with this text."""
    path = folder / "sky.toml"
    path.write_text(text)
    return str(path)


def recipe_run(node, folder, text, *words):
    """A recipe as `recipe run --json` has it; with `--wait` as it is when it is done."""
    return json.loads(node.cli("recipe", "run", recipe_file(folder, text), "--json", *words).stdout)["recipe"]


def ran(node, folder, text):
    """A recipe that is done, as `show --json` has it."""
    return recipe_run(node, folder, text, "--wait")


def shown(node, recipe="r1"):
    """A recipe as it is now."""
    return node.api.get(f"/v1/recipes/{recipe}").value["recipe"]


def change(node, action, recipe="r1"):
    """Change a recipe as soon as the store answers; returns it as it is then."""
    changed = list[Any]()

    def answered():
        with contextlib.suppress(NotNowError):
            changed.append(node.api.post("/v1/recipes/change", {"recipe": recipe, "action": action}).value["recipe"])
        return bool(changed)

    wait_for(answered, f"{recipe} can be changed")
    return changed[0]


def grades(node, job):
    """What each sample was graded, by problem and repeat."""
    return {(one["row"], one["repeat"]): one for one in node.samples(job["id"])}


def configure(node, **tables):
    """Write config.toml: each table by its name, with `__` for the dot; none of those without settings."""
    folder = Path(node.settings["XDG_CONFIG_HOME"]) / "rwkvctl"
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, table in tables.items():
        lines += [f"[{name.replace('__', '.')}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    (folder / "config.toml").write_text("\n".join([*lines, ""]))


def configure_writer(node, server, **changes):
    """Write the table of the writer; none without a server."""
    table = {} if server is None else {"base_url": server.url, "model": "scribe", "revision": "r1"} | changes
    configure(node, **({"writer": table} if table else {}))
