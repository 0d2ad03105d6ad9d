"""`rwkvctl rewrite`: have another model bring right samples into a form for training."""

from rwkvctl.cli.confirm import named
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import recipe_tables
from rwkvctl.cli.tables.judge_tables import paid_line
from rwkvctl.protocol.errors import Exit


@verb
def rewrite(context: Context, jobs: list[str], *, rule: str = "thought-solution", check: bool = False) -> int:
    """Have the writer rewrite right samples of finished jobs, or make shorter variants of them, each as a job.

    The writer is the model of the table [writer] in config.toml; without it the new
    jobs are held. They ask the same rows and are graded as their sources are, so
    `rwkvctl samples`, `regrade` and recipes (jobs = ["j90"]) take them as any other.
    A rewriting that is there already is not made again, and no reply is paid twice.

    thought-solution: the reasoning, word for word, between <|begin_of_thought|> and
    <|end_of_thought|>, then a short solution with one answer between
    <|begin_of_solution|> and <|end_of_solution|>. A completion that has this form,
    or a thought between <think> tags, is converted without a call.

    split-thoughts: of each problem the shortest right completion, if another is
    longer, is split into thoughts, and cut behind the first right one (sample 0), one
    later (1) and behind the second right one (2). It must have the form of
    thought-solution, or a thought between <think> tags. [pairs] of a recipe with
    fcs, fcs+1 or fcs+reflection does this by itself.

    jobs: ids of finished jobs of one turn each (free_response.chat); `-` takes them from standard input
    rule: thought-solution or split-thoughts
    check: say what would be rewritten and about what that costs, and change nothing

    $ rwkvctl rewrite j81 --check
    $ rwkvctl rewrite j81
    $ rwkvctl rewrite j90 --rule split-thoughts
    """
    body = {"jobs": named(jobs), "rule": rule}
    if check:
        answer = context.client.post("/v1/rewrite", body | {"check": True})
    else:
        answer = context.change("/v1/rewrite", body)
    items = answer.value["items"]
    context.show(answer, recipe_tables.rewritings(items))
    if not context.as_json:
        for item in filter(None, [answer.value.get("paid")]):
            context.say(paid_line(item))
    wrong = [item for item in items if item.get("error")]
    if not wrong:
        return Exit.OK
    return Exit.PARTLY if len(wrong) < len(items) else Exit.REFUSED
