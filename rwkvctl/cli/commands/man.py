"""`rwkvctl man`: print a manual page, or install all pages below a folder."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.reference.manpage import pages
from rwkvctl.cli.registry import did_you_mean, verb
from rwkvctl.protocol.errors import Exit, RwkvctlError


@verb
def man(context: Context, page: list[str] = [], *, install: str = "") -> int:  # noqa: B006 - read by the registry
    """The manual: rwkvctl(1), a page for each verb, rwkvctl-daemon(8), and rwkvctl.toml(5) for the configuration.

    In a pipe the page's source is printed; `man -l -` reads it.

    page: a verb, `daemon` or `toml`; without one, rwkvctl(1)
    install: write all pages below this folder, in man1, man5 and man8

    $ rwkvctl man
    $ rwkvctl man dispatch
    $ rwkvctl man toml
    $ rwkvctl man --install /usr/local/share/man
    """
    every = pages()
    if install:
        return write_all(context, Path(install))
    wanted = "-".join(["rwkvctl", *page])
    found = next(
        (name for name in every if name.rpartition(".")[0] in {wanted, wanted.replace("rwkvctl-toml", "rwkvctl.toml")}),
        "",
    )
    if not found:
        known = [name.rpartition(".")[0].removeprefix("rwkvctl-") for name in every]
        raise UsageError(f"rwkvctl man: there is no page '{' '.join(page)}'.{did_you_mean(' '.join(page), known)}")
    source = every[found]()
    if context.as_json:
        context.show_local("rwkvctl.man/1", {"name": found, "source": source})
    elif context.terminal.is_tty and shutil.which("man"):
        with tempfile.NamedTemporaryFile("w", suffix=f"-{found}", encoding="utf-8") as file:
            file.write(source)
            file.flush()
            subprocess.run(["man", "-l", file.name], check=False)  # noqa: S607 - the system's own manual
    else:
        context.terminal.write(source)
    return Exit.OK


def write_all(context: Context, folder: Path) -> int:
    """Write every page where `man` looks for it."""
    written = []
    try:
        for name, make in pages().items():
            path = folder / f"man{name[-1]}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(make(), encoding="utf-8")
            written.append(str(path))
    except OSError as error:
        raise RwkvctlError(f"{error.filename} cannot be written: {error.strerror}.") from error
    context.show_local("rwkvctl.man-pages/1", {"items": written})
    if not context.as_json:
        context.say(f"{len(written)} pages written below {folder}")
    return Exit.OK
