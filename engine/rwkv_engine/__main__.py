"""`python -m rwkv_engine serve MODEL --socket PATH`: the process a supervisor starts.

The socket appears once the model is loaded. Exit codes: 0 after SIGTERM or SIGINT, 1 for an environment that does not
serve (the socket is taken, the device is missing, the engine's thread died), 2 for wrong flags, 3 for a checkpoint that
does not load; the reason is one sentence on stderr.
"""

import argparse
import sys
from pathlib import Path

try:
    from rwkv_engine.serve import DOES_NOT_LOAD, NO_SERVICE, Options, ServeError, serve
except ModuleNotFoundError as error:
    sys.exit(f"rwkvctl engine: {error.name} is not installed; pip install 'rwkvctl[engine]'")
from rwkv_weights.files import builtin_checkpoint_path


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m rwkv_engine", description=__doc__)
    verb = parser.add_subparsers(dest="verb", required=True).add_parser("serve", help="load a model and serve it")
    _flags(verb)
    flags = vars(parser.parse_args(argv))
    flags.pop("verb")
    try:
        if str(flags["model"]) == "builtin":
            flags["model"] = builtin_checkpoint_path()
        serve(Options(**flags))
    except ServeError as error:
        sys.stderr.write(f"{error}\n")
        return DOES_NOT_LOAD if error.checkpoint else NO_SERVICE
    return 0


def _flags(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("model", type=Path, help="a BlinkDL .pth, or `builtin`")
    verb.add_argument("--socket", type=Path, required=True, help="Unix socket to listen on")
    verb.add_argument("--numerics", choices=("fp32", "fast"), default="fp32", help="profile (default: %(default)s)")
    verb.add_argument("--device", default="cpu", help="only cpu yet")
    verb.add_argument("--slots", type=int, default=0, help="sequences at once (default: by the model's size)")
    verb.add_argument("--queue", type=int, default=0, help="items that may wait (default: 1024 or 16 a slot)")
    verb.add_argument("--threads", type=int, default=1, help="torch threads (default: %(default)s)")
    verb.add_argument("--weights-sha256", default="", help="the file's hash as the supervisor knows it; not computed")
    verb.add_argument("--attempt", default="", help="marker echoed in /v1/health")
    verb.add_argument("--liveness", type=Path, default=None, help="file in which a step counter is mapped")


if __name__ == "__main__":
    sys.exit(main())
