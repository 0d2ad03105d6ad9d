"""`rwkvctl harness`: programs of others that measure our models, and what they can measure."""

from typing import NoReturn

from rwkvctl.cli.commands.data import common
from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import as_owner, become
from rwkvctl.cli.registry import verb
from rwkvctl.cli.render import LONGEST
from rwkvctl.cli.tables import harness_tables
from rwkvctl.protocol.errors import Exit
from rwkvctl.text.sanitize import fit, safe_line
from rwkvctl.text.shell_words import as_typed


@verb
def harness(context: Context) -> int:
    """The outside harnesses of this node: in which state each is, and how many tasks it has.

    A harness asks a warm engine through its OpenAI routes, behind a token that is for one run
    alone. It is installed apart from rwkvctl, from a lock whose hashes are checked, sees neither
    the daemon's files nor your home, and has a network only if its manifest says so. Its scores
    are compared with those of the same version alone.

    A manifest of your own is NAME.toml in the folder `harnesses` beside config.toml, and own
    tasks for NAME go into the folder harnesses/NAME; docs/harnesses.md has an example.

    $ rwkvctl harness
    $ rwkvctl harness build lm-eval
    $ rwkvctl dispatch --harness lm-eval --only-datasets hellaswag gsm8k --models 'rwkv7-g1d-*'
    """
    answer = context.client.get("/v1/harnesses")
    context.show(answer, harness_tables.harnesses(answer.value["items"]))
    if not context.as_json:
        for line in harness_tables.lines(answer.value["items"]):
            context.say(fit(safe_line(line), LONGEST))
    return Exit.OK


@verb
def harness_tasks(context: Context, harness: str, words: list[str] = [], *, limit: int = 100) -> int:  # noqa: B006
    """The tasks of a harness that is built, one a line.

    harness: one that is built
    words: only tasks in whose names each of these is
    limit: the most tasks that are listed

    $ rwkvctl harness tasks lm-eval gsm8k
    """
    answer = context.client.get("/v1/harness-tasks", name=harness, words=" ".join(words), limit=limit)
    context.show(answer, harness_tables.tasks(answer.value))
    left = answer.value["total"] - len(answer.value["tasks"])
    if left and not context.as_json:
        context.say(f"{left:,} more; name a word of those you look for, or --limit")
    return Exit.OK


@verb
def harness_build(context: Context, harness: str, *, again: bool = False) -> NoReturn:
    """Install a harness into a folder of its own, or read in its own tasks if it is installed.

    Every package is one of the lock beside the manifest, and its hash is checked. lm-eval takes
    800 MB and a minute or two. An interrupted or broken build is made anew.

    harness: one that `rwkvctl harness` lists
    again: install it again although it is there, and have rows fetched again

    $ rwkvctl harness build lm-eval
    """
    as_owner(context.config.home, as_typed(["harness", "build", harness]))
    become("rwkv_daemon.harness", "build", harness, *(["--again"] if again else []), *common(context))
