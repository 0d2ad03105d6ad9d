"""What scripts/install.py tells uv of pip's configuration."""

import runpy
from pathlib import Path

import pytest

for_uv = runpy.run_path(str(Path(__file__).parents[2] / "scripts/install.py"))["for_uv"]


@pytest.mark.parametrize(
    ("pip_config", "options", "places"),
    [
        ("", [], {}),
        ("global.disable-pip-version-check='1'\n", [], {}),
        ("global.index-url='https://me:secret@mirror/'\n", [], {"UV_DEFAULT_INDEX": "https://me:secret@mirror/"}),
        (
            "global.extra-index-url='https://a/simple https://b/simple'\n",
            ["--index-strategy", "unsafe-best-match"],
            {"UV_INDEX": "https://a/simple https://b/simple"},
        ),
        ("global.find-links='\\n/opt/wheels\\n/srv/wheels'\n", [], {"UV_FIND_LINKS": "/opt/wheels,/srv/wheels"}),
        ("global.no-index='true'\ninstall.find-links='wheels'\n", ["--no-index"], {"UV_FIND_LINKS": "wheels"}),
        ("global.no-index='false'\n", [], {}),
        (":env:.cert='/env.pem'\nglobal.cert='/file.pem'\ninstall.cert='/install.pem'\n", ["--cert", "/env.pem"], {}),
        (
            "global.constraint='/etc/caps.txt'\nglobal.trusted-host='mirror'\n",
            ["--constraint", "/etc/caps.txt", "--allow-insecure-host", "mirror"],
            {},
        ),
    ],
)
def test_uv_looks_where_pip_is_told_to(pip_config: str, options: list[str], places: dict[str, str]) -> None:
    """Whatever may hold a password is in the environment and not in the command line, which all users can read."""
    assert for_uv(pip_config) == (options, places)
