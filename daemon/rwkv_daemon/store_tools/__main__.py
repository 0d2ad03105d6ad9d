"""`python -m rwkv_daemon.store_tools`: what `rwkvctl backup`, `restore`, `migrate`, `rebuild` and `doctor` exec."""

import sys

from rwkvctl.envelope import fail
from rwkvctl.protocol.errors import RwkvctlError

try:
    from rwkv_daemon.store_tools.main import main
except ModuleNotFoundError as error:
    wrong = RwkvctlError(f"{error.name} is not installed; pip install 'rwkvctl[daemon]'")
    sys.exit(fail("rwkvctl", wrong, as_json="--json" in sys.argv))

if __name__ == "__main__":
    sys.exit(main())
