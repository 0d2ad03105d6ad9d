"""`rwkvctl recipe`: training data from measured samples."""

import contextlib
import json
import subprocess
import time
from pathlib import Path
from typing import IO, Final, Literal

from rwkvctl.cli.client import Answer, Record, segment
from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import Table
from rwkvctl.cli.tables import core_tables, recipe_tables
from rwkvctl.cli.tables.judge_tables import paid_line, payment_line
from rwkvctl.protocol.errors import Exit, RefusedError, RwkvctlError
from rwkvctl.settings.module_command import module_command
from rwkvctl.text.progress_meter import Meter
from rwkvctl.text.quantities import all_done, several
from rwkvctl.text.sanitize import safe_text

RowFormat = Literal["messages", "sharegpt", "sharegpt-preference", "trl-preference", "rwkv", "parquet"]
Roles = Literal["human/gpt", "user/assistant"]
LOOK_S: Final = 1.0
PAGE: Final = 100
LONGEST: Final = 1 << 18
"""Bytes of a recipe."""
ENDED: Final = {"done": Exit.OK, "failed": Exit.FAILED, "stopped": Exit.FAILED}


@verb
def recipe_check(context: Context, file: str) -> int:
    """What a recipe would sample or mix, what is there already, and what that takes; nothing is changed.

    Exit code: 0 it can be run; 5 it cannot, and the sentences say why.

    file: the recipe, TOML; `rwkvctl help recipe run` shows one

    $ rwkvctl recipe check sky.toml
    """
    answer = context.client.post("/v1/recipes/check", {"toml": read(file)})
    reply = answer.value
    if parts := reply.get("parts"):
        context.show(answer, recipe_tables.parts(parts))
        if (most := reply.get("most_rows")) and not context.as_json:
            context.say(f"{several(most, 'row')} if none is dropped in cleaning")
    else:
        plan = core_tables.plan(reply.get("plan", ()))._replace(name="plan")
        context.show(answer, plan, recipe_tables.sources(reply.get("sources", ())))
    if not context.as_json:
        say_cost(context, reply, whole=True)
        for problem in reply.get("problems", ()):
            context.terminal.note(f"cannot be run: {problem}", "bad")
    return Exit.REFUSED if reply.get("problems") else Exit.OK


def say_cost(context: Context, reply: Record, *, whole: bool) -> None:
    """Print what a recipe takes, and with what its rows will not be compared: `whole`, with the names of all."""
    for item in reply.get("paid", ()):
        context.say(paid_line(item))
    if said := all_done(reply.get("eta_s"), reply.get("not_estimated", 0)):
        context.say(said)
    if missing := reply.get("not_checked"):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        names = ", ".join(missing) if whole else f"{missing[0]}{more}"
        context.say(f"{several(len(missing), 'benchmark')} without rows on this node: nothing is compared with {names}")


@verb
def recipe_run(context: Context, file: str, *, wait: bool = False, timeout: float | None = None) -> int:
    """Sample what a recipe says, and make training rows of it once all of it is graded.

    A recipe is a TOML file:

        [[sample]]                        # the flags of `rwkvctl dispatch`
        models = ["qwq"]
        datasets = ["numina_math"]
        kinds = ["free_response.chat"]
        settings = {k = 8, where = "difficulty>=4"}

        [rewrite]                         # optional: see `rwkvctl help rewrite`
        rule = "thought-solution"

        [select]                          # or [pairs] with rules = ["fcs"]
        rule = "shortest-correct"
        pass_rate = [0.1, 0.9]

    Instead of [[sample]], or with it, `jobs = ["j81"]` names jobs that are there.
    Work that is done or queued already is used and not done again. A job keeps
    the grade that it has when it is first done. Before rows are made, their
    problems are compared with every prepared benchmark and with each other.
    docs/recipes.md has the rules.

    Rows that are made are mixed by a recipe of their own:

        seed = 7                          # which rows are drawn, and their order

        [[mix]]
        recipe = "r3"
        weight = 2                        # in proportion to other weights

        [[mix]]
        rows = "chat"                     # see `rwkvctl help data rows`
        weight = 1                        # or limit = 1000; without either all of them

    With --wait, the funnel follows once the rows are made; a recipe that is paused is
    waited for until it is resumed. Exit code with --wait:
    0 rows are made; 1 the recipe, or a job or a part that it uses, failed, was stopped
    or is gone; 6 timed out.

    file: the recipe
    wait: follow it until its rows are made
    timeout: with --wait, seconds after which waiting ends

    $ rwkvctl recipe run sky.toml --wait
    """
    text = read(file)
    say_cost(context, context.client.post("/v1/recipes/check", {"toml": text}).value, whole=False)
    answer = context.change("/v1/recipes", {"toml": text, "name": Path(file).name})
    item = answer.value["recipe"]
    if wait:
        context.say(f"{item['recipe']} {item['name']} {used(item)}")
        return follow(context, item["recipe"], timeout)
    context.show(answer, origins(item), headline=[recipe_tables.summary(item), ""])
    if not context.as_json:
        context.say(f"follow it with `rwkvctl recipe show {item['recipe']}`")
    return Exit.OK


def used(item: Record) -> str:
    """Return in words which jobs a recipe uses, or whose rows it mixes."""
    if item.get("mixes"):
        return f"mixes {' and '.join(item['mixes'])}"
    return f"uses {several(len(item['sources']), 'job')}"


def origins(item: Record) -> Table:
    """Return a table of the jobs whose samples a recipe uses, or of the parts that it mixes."""
    return recipe_tables.parts(item["parts"]) if item.get("parts") else recipe_tables.sources(item.get("sources", ()))


def read(file: str) -> str:
    """Return the text of a recipe; the daemon refuses one that is too long. Raises RwkvctlError."""
    try:
        with Path(file).open("rb") as opened:
            found = opened.read(LONGEST + 1)
        if len(found) > LONGEST:
            raise RwkvctlError(f"{file} is no recipe: it has more than {LONGEST:,} bytes.")
        return found.decode("utf-8-sig")
    except OSError as error:
        raise RwkvctlError(f"{file} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise RwkvctlError(f"{file} is no recipe: it is not UTF-8.") from error


def follow(context: Context, recipe: str, timeout_s: float | None) -> int:
    """Show how a recipe gets on until it has ended, then its funnel; the exit code says how it ended."""
    deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s
    with Meter() as meter:
        while True:
            answer = context.client.get(f"/v1/recipes/{segment(recipe)}")
            item = answer.value["recipe"]
            used_by_it = (*item.get("sources", ()), *item.get("parts", ()))
            lost = [one for one in used_by_it if one["state"] in {"failed", "stopped", "missing"}]
            if item["state"] in ENDED or (item["state"] == "waiting" and lost):
                break
            if time.monotonic() > deadline:
                now = "is paused" if item["state"] == "paused" else "goes on"
                said = f"not finished after {timeout_s:g} s; the recipe {now}."
                raise RefusedError("timed-out", said, f"See: rwkvctl recipe show {recipe}", Exit.TIMEOUT)
            first = item["funnel"][0] if item.get("funnel") else {"rows_out": 0, "rows_in": 0}
            meter.show(f"{recipe}: {doing(item)}", first["rows_out"], first["rows_in"])
            time.sleep(LOOK_S)
    show(context, answer)
    return ENDED.get(item["state"], Exit.FAILED)


def doing(item: Record) -> str:
    """Return what a recipe does now, in words."""
    detail = str(item.get("detail", ""))
    return f"paused, {detail}" if item["state"] == "paused" else detail or str(item["state"])


@verb
def recipe_list(context: Context, *, limit: int = 20, before: int = 0) -> int:
    """Recipes, newest first: their state, rows and jobs.

    limit: at most this many
    before: only recipes before this number (the cursor that a full page names)

    $ rwkvctl recipe list
    """
    answer = context.client.get("/v1/recipes", limit=limit, before=before or None)
    context.show(answer, recipe_tables.recipes(answer.value["items"]))
    if following := answer.value.get("next"):
        context.say(f"more recipes: rwkvctl recipe list --before {following}")
    return Exit.OK


@verb
def recipe_show(context: Context, recipe: str, *, row: int | None = None, dropped: bool = False) -> int:
    """The funnel of a recipe: how many samples came into each stage and went out, and why the others did not.

    Above it stands what its jobs have paid so far to the writer, to teachers behind
    endpoints and to the judge; a reply that jobs share was paid by one of them.

    recipe: its number, as `recipe list` shows it
    row: instead of the funnel one row, counted from 0, with the samples, jobs and grades that it comes from
    dropped: instead of the funnel the problems that were dropped in cleaning, with what each is near

    $ rwkvctl recipe show r3
    $ rwkvctl recipe show r3 --row 4711
    """
    if row is not None and dropped:
        raise UsageError("--row shows a row that was made, --dropped those that were not: give one of them.")
    if row is not None:
        return show_row(context, recipe, row)
    if dropped:
        return show_dropped(context, recipe)
    answer = context.client.get(f"/v1/recipes/{segment(recipe)}")
    show(context, answer)
    return Exit.OK


def show(context: Context, answer: Answer) -> None:
    """Print a recipe: what was paid for it, its funnel, and the jobs or parts that it uses."""
    item = answer.value["recipe"]
    tables = recipe_tables.funnel(item.get("funnel", ())), origins(item)
    paid = [f"paid to {payment_line(one)}" for one in item.get("paid", ())]
    context.show(answer, *tables, headline=[recipe_tables.summary(item), *paid, ""])


def show_row(context: Context, recipe: str, row: int) -> int:
    """Print one training row with its lineage. Raises RefusedError if there is none of that number."""
    answer = context.client.get(f"/v1/recipes/{segment(recipe)}/rows", first=max(0, row), limit=1)
    if row < 0 or not answer.value["items"]:
        text = f"{recipe} has no row {row}; rows are counted from 0."
        raise RefusedError(
            "no-such-row", text, f"`rwkvctl recipe show {recipe}` says how many there are.", Exit.NOT_FOUND
        )
    if context.as_json:
        context.show(answer)
        return Exit.OK
    item = answer.value["items"][0]
    answers = [(name, item[name]) for name in ("chosen", "rejected") if item.get(name)]
    system = [("system", item["system"])] if item.get("system") else []
    for title, text in [*system, *((turn["role"], turn["text"]) for turn in item["turns"]), *answers]:
        context.terminal.line(f"{title}:", "bold")
        context.terminal.write(safe_text(text) + "\n")
    context.terminal.line("lineage:", "bold")
    context.terminal.write(safe_text(json.dumps(item["lineage"], ensure_ascii=False, indent=2)) + "\n")
    return Exit.OK


def show_dropped(context: Context, recipe: str) -> int:
    """Print the problems that were dropped in cleaning."""
    items, first = list[Record](), 0
    while first >= 0:
        page = context.client.get(f"/v1/recipes/{segment(recipe)}/rows", dropped=True, first=first, limit=PAGE).value
        items, first = [*items, *page["items"]], page["next"]
    context.show_local("rwkvctl.recipe-rows/1", {"items": items, "next": -1}, recipe_tables.dropped_problems(items))
    return Exit.OK


@verb
def recipe_pause(context: Context, recipe: str) -> int:
    """Pause a recipe: nothing is queued for it, and no rows are made, until `rwkvctl recipe resume`.

    The jobs that only it waits for are paused with it, each at a point where no paid
    reply is lost; held ones stay held. They say so, and go on when the recipe is
    resumed, stopped or deleted.

    recipe: its number

    $ rwkvctl recipe pause r3
    """
    return change(context, recipe, "pause")


@verb
def recipe_stop(context: Context, recipe: str) -> int:
    """Stop a recipe: no rows are made of its samples. Its jobs go on; `rwkvctl stop` stops them.

    Jobs that were paused with it go on, too.

    recipe: its number

    $ rwkvctl recipe stop r3
    """
    return change(context, recipe, "stop")


@verb
def recipe_resume(context: Context, recipe: str) -> int:
    """Take up a recipe that was paused or stopped, or has failed. Jobs that were paused with it go on.

    recipe: its number

    $ rwkvctl recipe resume r3
    """
    return change(context, recipe, "resume")


@verb
def recipe_delete(context: Context, recipe: str) -> int:
    """Delete a recipe with the rows that it has made. Its jobs and their samples stay, and files that were exported.

    Jobs that were paused with it go on.

    recipe: its number

    $ rwkvctl recipe delete r3
    """
    return change(context, recipe, "delete")


def change(context: Context, recipe: str, action: str) -> int:
    """Change the state of a recipe, and print it."""
    answer = context.change("/v1/recipes/change", {"recipe": recipe, "action": action})
    item = answer.value["recipe"]
    if action == "delete" and not context.as_json:
        context.say(f"{item['recipe']} {item['name']} is deleted")
    else:
        context.show(answer, recipe_tables.recipes([item]))
    return Exit.OK


@verb
def recipe_export(
    context: Context, recipe: str, *, to: str, format_: RowFormat, roles: Roles = "human/gpt", replace: bool = False,
    push_to_hub: str | None = None, public: bool = False,
) -> int:  # fmt: skip
    """Write the rows of a recipe to a file, with its lineage and its card.

    sharegpt and sharegpt-preference are JSON lists that LLaMA-Factory takes; their
    card has the entry for dataset_info.json. messages and trl-preference are JSON
    lines, as chat templates and TRL take them. rwkv is JSON lines of
    {"text": "User: ...\\n\\nAssistant: ..."}, in which no turn holds a blank line.
    parquet is a folder that datasets.load_dataset opens.

    Beside FILE stand FILE.lineage.jsonl, which names for each row the problem, the
    samples with their jobs, weights and grades, and the rule that chose them; and
    FILE.card.md with the funnel, licences, sampling, tokens and seeds. The same rows
    give the same bytes. All of it is written, or nothing.

    --push-to-hub ORG/NAME pushes the folder of parquet, once it is written and its
    hashes are those of its card, to a dataset repository of the Hugging Face hub, all
    of it in one commit. The repository is created private, or public with --public;
    one that is public already is refused without --public, and no visibility is
    changed. Rows, lineage and README.md of an earlier push are replaced, other files
    stay. A repository whose README.md or rows no export has pushed is refused, and so
    is one with files that datasets would load along with the rows. Card and lineage
    are pushed with the rows: they name models, endpoints and what was paid. If the
    push fails, the same command repeats it: a folder that has exactly these rows is
    kept. HF_TOKEN or `hf auth login` gives the token, HF_ENDPOINT the hub; both are
    those of the machine on which you run this command, also if the node is another.
    Before files are sent, a line on standard error names the address.

    recipe: its number
    to: the file to write; for parquet the folder
    format_: the format; of pairs sharegpt-preference, trl-preference or parquet
    roles: what sharegpt calls the two sides
    replace: replace existing files
    push_to_hub: push the folder to this dataset repository, ORG/NAME; with --format parquet
    public: create the repository public, or push to one that is

    $ rwkvctl recipe export r3 --format sharegpt --to train.json
    $ rwkvctl recipe export r4 --format trl-preference --to pairs.jsonl
    $ rwkvctl recipe export r3 --format parquet --to sky --push-to-hub lab/sky
    """
    pushing = push_words(push_to_hub, format_, public=public)
    answer = context.client.get(f"/v1/recipes/{segment(recipe)}")
    item = answer.value["recipe"]
    if item["state"] != "done" or not item.get("rows"):
        raise RefusedError("no-rows", f"There are no rows: {recipe_tables.summary(item)}.", "", Exit.REFUSED)
    words = ["write-rows", f"--to={to}", "--format", format_, "--roles", roles, *(["--replace"] if replace else [])]
    words += [*pushing, *(["--json"] if context.as_json else [])]
    with subprocess.Popen(module_command("rwkv_data", *words), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError):  # it has ended, and has said why
                send(context, recipe, item, process.stdin)
            return process.wait()
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()


def push_words(repo: str | None, form: RowFormat, *, public: bool) -> list[str]:
    """Return what `python -m rwkv_data write-rows` is told of a push. Raises UsageError if there cannot be one."""
    if repo is None:
        if public:
            raise UsageError("--public is for a push to the hub: give --push-to-hub ORG/NAME.")
        return []
    if form != "parquet":
        raise UsageError(f"--push-to-hub pushes a folder of parquet, not {form}: give --format parquet.")
    return [f"--push-to-hub={repo}", *(["--public"] if public else [])]


def send(context: Context, recipe: str, item: Record, pipe: IO[bytes]) -> None:
    """Write the rows of a recipe to a pipe: see rwkv_data.recipes.files.piped_rows. It is closed only if there are too
    few, because whoever pushes the rows ends with it."""
    first = sent = 0
    with Meter() as meter:
        pipe.write(json.dumps({"rows": item["rows"], "card": item["card"]}).encode() + b"\n")
        while first >= 0:
            page = context.client.get(f"/v1/recipes/{segment(recipe)}/rows", first=first, limit=PAGE).value
            for row in page["items"]:
                pipe.write(json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
            first, sent = page["next"], sent + len(page["items"])
            meter.show("rows", item["rows"] if first < 0 else first, item["rows"])
        pipe.flush()
    if sent < item["rows"]:
        pipe.close()


@verb
def recipe_verify(context: Context, file: str) -> int:
    """Whether a file that was exported is what its lineage and its card say, and whether its grades still stand.

    Every byte of rows and lineage is compared with its hash, and every sample with
    its grade in the store of the daemon: a row whose sample is not right, or whose
    job was removed, is named. Exit code: 0 all is as it says; 1 something is not.

    file: the file, or the folder of parquet

    $ rwkvctl recipe verify train.json
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        module_command("rwkv_data", "verify-rows", "--json", "--", file), stdin=pipe, stdout=pipe
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        found: Record = {}
        for line in process.stdout:
            found = json.loads(line)
            if "asked" in found:
                reply = context.client.post("/v1/verdicts", {"samples": found["asked"]}).value
                process.stdin.write(json.dumps(reply["right"]).encode() + b"\n")
                process.stdin.flush()
        process.stdin.close()
        code = process.wait()
    if "problems" not in found:  # it has said on standard error why not
        if context.as_json and found:
            context.terminal.json(json.dumps(found, ensure_ascii=False))
        return code or Exit.FAILED
    context.show_local("rwkvctl.recipe-verify/1", {"file": file, **found}, recipe_tables.problems(found["problems"]))
    if code == Exit.OK:
        context.say(f"{file}: {several(found['samples'], 'sample')} compared, all is as lineage and card say")
    return code
