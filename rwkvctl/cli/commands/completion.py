"""`rwkvctl completion`: the script that a shell sources, and the words it asks for."""

from typing import Literal

from rwkvctl.cli.completion import SCRIPTS, candidates
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import passed_verb, verb
from rwkvctl.protocol.errors import Exit


@verb
def completion(context: Context, shell: Literal["bash", "zsh", "fish"]) -> int:
    """A script that completes verbs, flags and ids in your shell.

    shell: which shell

    $ source <(rwkvctl completion bash)
    $ rwkvctl completion fish > ~/.config/fish/completions/rwkvctl.fish
    """
    if context.as_json:
        context.show_local("rwkvctl.completion/1", {"shell": shell, "script": SCRIPTS[shell]})
    else:
        context.terminal.write(SCRIPTS[shell])
    return Exit.OK


@passed_verb
def completion_words(context: Context, rest: list[str]) -> int:
    """Print completions of the last word of a command line; the completion scripts call this.

    rest: the words after `rwkvctl`, the last one begun

    $ rwkvctl completion words samples j
    """
    context.terminal.write("".join(f"{word}\n" for word in candidates(rest)))
    return Exit.OK
