"""`python -m rwkv_daemon`: the daemon in the foreground. `rwkvctl daemon` and systemd exec this."""

import sys

from rwkv_daemon.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
