"""Install requirements into this interpreter's environment with uv, in a sixth of pip's time.

    .venv/bin/python scripts/install.py torch==2.13.0 --editable '.[daemon,engine]'

uv reads nothing of pip's configuration: the indexes, wheel folders, constraints and certificates of `pip.conf` and of
`PIP_…` are passed on. What uv cannot do, or where there is no network and no wheel of it, pip does.
"""

import ast
import os
import subprocess
import sys

PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
UV = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable)
UV_ITSELF = "uv==0.13.9"  # not in constraints.txt: no test depends on it
CONSTRAINED = ("--constraint", "constraints.txt")
SECTIONS = ("global.", "install.", ":env:.")  # of pip's configuration, the strongest last
OPTIONS = {"constraint": "--constraint", "trusted-host": "--allow-insecure-host", "cert": "--cert"}
"""pip's name of an option: uv's."""
PLACES = {"index-url": "UV_DEFAULT_INDEX", "extra-index-url": "UV_INDEX", "find-links": "UV_FIND_LINKS"}
"""pip's name of an option that may hold a password, which no other user may read in a command line: uv's variable."""


def strongest(pip_config: str) -> dict[str, list[str]]:
    """Return the values of each option, from what `pip config list` printed: a line `SECTION.OPTION='VALUES'` each."""
    pairs = [line.partition("=") for line in pip_config.splitlines()]
    said = {name: str(ast.literal_eval(value)).split() for name, _, value in pairs}
    return {
        option: said[section + option]
        for option in (*OPTIONS, *PLACES, "no-index")
        for section in SECTIONS
        if section + option in said
    }


def for_uv(pip_config: str) -> tuple[list[str], dict[str, str]]:
    """Return uv's options and variables for what `pip config list` printed."""
    found = strongest(pip_config)
    options = [part for name, option in OPTIONS.items() for value in found.get(name, ()) for part in (option, value)]
    if found.get("no-index", ["0"])[0].lower() in {"1", "true", "yes", "on"}:
        options.append("--no-index")
    if "extra-index-url" in found:  # pip takes the best version that any index has, uv the first index's
        options += ["--index-strategy", "unsafe-best-match"]
    places = {variable: found[name] for name, variable in PLACES.items() if name in found}
    return options, {name: ("," if name == "UV_FIND_LINKS" else " ").join(values) for name, values in places.items()}


def installs(*argv: str, **places: str) -> bool:
    """Whether the command ended well, with these variables added to its environment."""
    return subprocess.run(argv, env=os.environ | places, check=False).returncode == 0


def main(requirements: list[str]) -> int:
    """Install, and return the exit status."""
    pip_config = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=True).stdout
    options, places = for_uv(pip_config)
    if installs(*PIP, "install", UV_ITSELF) and installs(*UV, *options, *CONSTRAINED, *requirements, **places):
        return 0
    print("uv could not install them, see above; pip tries, which takes minutes", file=sys.stderr)
    return 0 if installs(*PIP, "install", "--no-compile", *CONSTRAINED, *requirements) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
