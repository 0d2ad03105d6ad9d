"""`rwkvctl engine serve`."""

from typing import NoReturn

from rwkvctl.context import Context
from rwkvctl.processes import become
from rwkvctl.verbs import passed_verb


@passed_verb
def engine_serve(context: Context, rest: list[str]) -> NoReturn:
    """Serve one model behind a socket, in place of this process: `rwkvctl engine serve MODEL [flags]`.

    The flags are those of `python -m rwkv_engine serve`; `rwkvctl engine serve --help` lists them.

    rest: the model, then flags of the engine

    $ rwkvctl engine serve model.pth --socket /tmp/engine.sock
    """
    become("rwkv_engine", "serve", *rest)
