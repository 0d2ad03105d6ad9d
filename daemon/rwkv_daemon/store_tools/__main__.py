"""`python -m rwkv_daemon.store_tools`: what `rwkvctl backup`, `restore`, `migrate`, `rebuild` and `doctor` exec."""

import sys

from rwkvctl.protocol.errors import RwkvctlError
from rwkvctl.text.json_envelope import fail

try:
    from rwkv_daemon.store_tools.main import main
except ModuleNotFoundError as error:
    wrong = RwkvctlError(f"{error.name} is not installed; pip install 'rwkvctl[daemon]'")
    sys.exit(fail("rwkvctl", wrong, as_json="--json" in sys.argv))

if __name__ == "__main__":
    sys.exit(main())
