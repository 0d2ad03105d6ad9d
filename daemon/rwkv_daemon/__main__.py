"""`python -m rwkv_daemon`: the daemon in the foreground. `rwkvctl daemon` and systemd exec this."""

import sys

try:
    from rwkv_daemon.main import main
except ModuleNotFoundError as error:
    sys.exit(f"rwkvctl daemon: {error.name} is not installed; pip install 'rwkvctl[daemon,engine]'")

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
