"""Install requirements into this interpreter's environment with uv, in a sixth of pip's time.

    .venv/bin/python scripts/install.py torch==2.13.0 --editable '.[daemon,engine]'

uv reads nothing of pip's configuration: the indexes, wheel folders, constraints and certificates of `pip.conf` and of
`PIP_…` are passed on. What uv cannot do, or where there is no network and no wheel of it, pip does.
"""

import ast
import subprocess
import sys

PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
UV = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable)
UV_ITSELF = "uv==0.13.9"  # not in constraints.txt: no test depends on it
CONSTRAINED = ("--constraint", "constraints.txt")
SECTIONS = ("global.", "install.", ":env:.")  # of pip's configuration, the strongest last
OPTIONS = {  # pip's name of an option that takes values: uv's
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraint",
    "trusted-host": "--allow-insecure-host",
    "cert": "--cert",
}


def for_uv(pip_config: str) -> list[str]:
    """Return uv's options for what `pip config list` printed: a line `SECTION.OPTION='VALUES'` each."""
    pairs = [line.partition("=") for line in pip_config.splitlines()]
    said = {name: str(ast.literal_eval(value)).split() for name, _, value in pairs}
    strongest = {
        option: said[section + option]
        for option in (*OPTIONS, "no-index")
        for section in SECTIONS
        if section + option in said
    }
    options = ["--no-index"] if strongest.pop("no-index", ["0"])[0].lower() in {"1", "true", "yes", "on"} else []
    if "extra-index-url" in strongest:  # pip takes the best version that any index has, uv the first index's
        options += ["--index-strategy", "unsafe-best-match"]
    return options + [
        part for option, values in strongest.items() for value in values for part in (OPTIONS[option], value)
    ]


def installs(*argv: str) -> bool:
    """Whether the command ended well."""
    return subprocess.run(argv, check=False).returncode == 0


def main(requirements: list[str]) -> int:
    """Install, and return the exit status."""
    pip_config = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=True).stdout
    if installs(*PIP, "install", UV_ITSELF) and installs(*UV, *for_uv(pip_config), *CONSTRAINED, *requirements):
        return 0
    print("uv could not install them, see above; pip tries, which takes minutes", file=sys.stderr)
    return 0 if installs(*PIP, "install", "--no-compile", *CONSTRAINED, *requirements) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
