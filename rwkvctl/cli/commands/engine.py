"""`rwkvctl engine serve` and `rwkvctl engine verify`."""

from typing import NoReturn

from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import become
from rwkvctl.cli.registry import passed_verb


@passed_verb
def engine_serve(context: Context, rest: list[str]) -> NoReturn:
    """Serve one model behind a socket, in place of this process: `rwkvctl engine serve MODEL [flags]`.

    The flags are those of `python -m rwkv_engine serve`; `rwkvctl engine serve --help` lists them.

    rest: the model, then flags of the engine

    $ rwkvctl engine serve model.pth --socket /tmp/engine.sock
    """
    become("rwkv_engine", "serve", *rest)


@passed_verb
def engine_verify(context: Context, rest: list[str]) -> NoReturn:
    """Check a checkpoint's arithmetic on this machine: `rwkvctl engine verify MODEL [flags]`.

    Weights, agreement with plain fp32 and with the package rwkv, and whether answers keep their bits in every batch,
    slot, chunking and cache. Exits with 1 if a promise of the profile is broken. `rwkvctl engine verify --help` lists
    the flags; with --json the findings are one document.

    rest: the model, then flags of the check

    $ rwkvctl engine verify builtin
    $ rwkvctl engine verify model.pth --numerics exact --largest 1024
    """
    become("rwkv_engine", "verify", *rest)
