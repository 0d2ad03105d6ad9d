"""`python -m rwkv_engine serve MODEL --socket PATH`: the engine process that a supervisor starts; people use `--port`.

The socket appears once the model is loaded. Exit codes: 0 after SIGTERM or SIGINT, 1 if it cannot serve here (the
socket is taken, the device is missing, the engine's thread died), 2 for wrong flags, 3 for a checkpoint that does not
load, 4 if the device has not enough memory for it, 5 if the daemon that started it is gone and it has no work; the
reason is one sentence on stderr.
"""

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from rwkvctl.protocol.errors import Exit, RefusedError, RwkvctlError
from rwkvctl.text.json_envelope import error_envelope, fail, say_json
from rwkvctl.text.sanitize import safe_line

try:
    from rwkv_engine.serving.process import DOES_NOT_LOAD, ServeError, ServeOptions, default_numerics, device_of, serve
except ModuleNotFoundError as error:
    wrong = RwkvctlError(f"{error.name} is not installed; pip install 'rwkvctl[engine]'")
    sys.exit(fail("rwkvctl engine", wrong, as_json="--json" in sys.argv))
from rwkv_engine.errors import OutOfMemory, VocabularyError
from rwkv_weights.local.checkpoint_files import builtin_checkpoint_path
from rwkvctl.protocol.numerics import NUMERICS, Numerics


class Parser(argparse.ArgumentParser):
    """An argument parser that raises ServeError, so that --json reports its errors too."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise ServeError(f"{self.prog}: error: {message}", Exit.USAGE)


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        return _run(words)
    except ServeError as error:
        sys.stderr.write(f"{safe_line(str(error))}\n")
        if "--json" in words:
            code = "usage" if error.code == Exit.USAGE else "failed"
            say_json(error_envelope(RefusedError(code, str(error), "", error.code)))
        return error.code


def _run(words: list[str]) -> int:
    parser = Parser(prog="python -m rwkv_engine", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    serving = verbs.add_parser("serve", help="load a model and serve it")
    _flags(serving)
    _verify_flags(verbs.add_parser("verify", help="check a model's arithmetic on this machine"))
    flags = vars(parser.parse_args(words))
    verb = flags.pop("verb")
    if str(flags["model"]) == "builtin":
        flags |= {"model": builtin_checkpoint_path()} | (
            {"name": flags["name"] or "builtin"} if "name" in flags else {}
        )
    if verb == "serve" and flags["socket"] is None and flags["port"] is None:
        serving.error("give the address to listen on: --socket, --port or both")
    as_json = flags.pop("json")
    return _verify(**flags, as_json=as_json) if verb == "verify" else serve(ServeOptions(**flags))


def _verify(model: Path, numerics: Numerics | None, device: str, largest: int, threads: int, *, as_json: bool) -> int:
    import torch

    from rwkv_engine.verify.checks import main as verify
    from rwkv_weights.formats.load import CheckpointError

    torch.set_num_threads(threads)
    where = device_of(device)
    if where.type == "cuda":
        torch.cuda.set_device(where)
    try:
        return verify(model, numerics or default_numerics(where), where, largest, as_json=as_json)
    except (CheckpointError, VocabularyError, OutOfMemory) as error:
        raise ServeError(str(error), DOES_NOT_LOAD) from error


def _verify_flags(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("model", type=Path, help="a checkpoint, or `builtin`")
    verb.add_argument("--numerics", choices=NUMERICS, help="profile (default: fast on a GPU, fp32 on the CPU)")
    verb.add_argument("--device", default="", help="cpu, cuda or cuda:N (default: a GPU if there is one)")
    verb.add_argument("--largest", type=int, default=128, help="largest batch to check (default: %(default)s)")
    verb.add_argument("--threads", type=int, default=1, help="torch threads (default: %(default)s)")
    verb.add_argument("--json", action="store_true", help="print the results as one JSON document")


def _flags(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("model", type=Path, help="a checkpoint, or `builtin`")
    verb.add_argument("--socket", type=Path, help="Unix socket to listen on")
    verb.add_argument("--port", type=int, help="TCP port to listen on, 0 for a free one")
    verb.add_argument("--host", default="127.0.0.1", help="address of --port (default: %(default)s)")
    verb.add_argument("--api-key-file", type=Path, help="file with the key that clients over TCP must send")
    verb.add_argument("--name", default="", help="what clients call the model (default: the file's name)")
    verb.add_argument("--numerics", choices=NUMERICS, help="profile (default: fast on a GPU, fp32 on the CPU)")
    verb.add_argument("--device", default="", help="cpu, cuda or cuda:N (default: a GPU if there is one)")
    verb.add_argument(
        "--memory-bytes", type=int, default=0, help="bytes of the GPU's memory to use (default: what is free)"
    )
    verb.add_argument("--slots", type=int, default=0, help="sequences run at once (default: by the model's size)")
    verb.add_argument("--queue", type=int, default=0, help="items that may wait (default: 1024, or 16 a slot if more)")
    verb.add_argument("--threads", type=int, default=1, help="torch threads (default: %(default)s)")
    verb.add_argument("--weights-sha256", default="", help="the checkpoint's hash, which is reported and not computed")
    verb.add_argument("--inodes", default="", help="read these weight files only: device:inode, separated by commas")
    verb.add_argument("--attempt", default="", help="marker echoed in /v1/health")
    verb.add_argument("--liveness", type=Path, help="file for a step counter; a process that locks it has work")
    verb.add_argument("--daemon-lock", type=Path, help="exit without work once no process holds this lock")
    verb.add_argument(
        "--idle-unload-s", type=float, default=600.0, help="seconds without work until then (default: %(default)g)"
    )
    verb.add_argument("--json", action="store_true", help="print an error as JSON too")


if __name__ == "__main__":
    sys.exit(main())
