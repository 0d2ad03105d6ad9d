"""`python -m rwkv_daemon.store_tools`: what `rwkvctl backup`, `restore`, `migrate`, `rebuild` and `doctor` exec."""

import sys

try:
    from rwkv_daemon.store_tools.main import main
except ModuleNotFoundError as error:
    sys.exit(f"rwkvctl: {error.name} is not installed; pip install 'rwkvctl[daemon]'")

if __name__ == "__main__":
    sys.exit(main())
