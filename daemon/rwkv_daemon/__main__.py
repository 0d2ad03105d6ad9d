"""`python -m rwkv_daemon`: the daemon in the foreground. `rwkvctl daemon` and systemd exec this."""

import sys

from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.text.json_envelope import fail

try:
    from rwkv_daemon.main import main
except ModuleNotFoundError as error:
    wrong = RwkvctlError(f"{error.name} is not installed; pip install 'rwkvctl[daemon,engine]'")
    sys.exit(fail("rwkvctl daemon", wrong, as_json="--json" in sys.argv))

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
