"""`rwkvctl serve`: serve one model over an OpenAI-compatible API."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import NoReturn

from rwkvctl.cli.context import Context
from rwkvctl.cli.exec_module import become
from rwkvctl.cli.registry import option, verb
from rwkvctl.protocol.model_names import meant
from rwkvctl.protocol.numerics import Numerics


@dataclass(frozen=True)
class ServeOptions:
    """The flags of `serve`; flags that are not given keep the engine's default."""

    host: str = option("127.0.0.1", "address to listen on (default: 127.0.0.1)")
    port: int = option(8000, "port to listen on, 0 for a free one (default: 8000)")
    api_key_file: str = option("", "file with the key that clients must send; only its owner may have access to it")
    device: str = option("", "cpu, cuda or cuda:N (default: the engine's)")
    slots: int = option(0, "sequences at once (default: by the model's size)")
    name: str = option("", "what clients call the model (default: the file's name)")


@verb
def serve(context: Context, model: str, *, serving: ServeOptions, numerics: Numerics | None = None) -> NoReturn:
    """Serve one model to clients of OpenAI's API, in place of this process.

    A model is a file, the name of a checkpoint in the weights folder, or `builtin`. Once it is loaded, the base URL and
    an example command are printed. Without a key only this machine may connect.

    model: a checkpoint's file or name, or builtin
    numerics: profile of the arithmetic (default: by the device)

    $ rwkvctl serve builtin
    $ rwkvctl serve rwkv7-g1h-7.2b-20260710-ctx10240.pth --device cuda --port 9000
    $ rwkvctl serve model.pth --host 0.0.0.0 --api-key-file ~/.rwkvctl-key
    """
    given = {field.name: getattr(serving, field.name) for field in fields(serving)} | {"numerics": numerics}
    flags = [(name, value) for name, value in given.items() if value or name == "port"]
    words = [word for name, value in flags for word in (f"--{name.replace('_', '-')}", str(value))]
    become("rwkv_engine", "serve", checkpoint(context, model), *words, *(["--json"] if context.as_json else []))


def checkpoint(context: Context, model: str) -> str:
    """Return the path of a model with a name of `rwkvctl models`; any other text is returned unchanged."""
    if model == "builtin" or "/" in model or Path(model).exists():
        return model
    paths = sorted(context.config.weights_dir.rglob("*.pth"), key=lambda path: len(path.parts), reverse=True)
    known = {path.stem: str(path) for path in paths}  # of several of one name the one that lies highest
    found = meant(model.removesuffix(".pth"), known)
    return known[found[0]] if len(found) == 1 else model
