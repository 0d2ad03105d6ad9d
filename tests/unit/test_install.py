"""What scripts/install.py tells uv of pip's configuration."""

import runpy
from pathlib import Path

import pytest

for_uv = runpy.run_path(str(Path(__file__).parents[2] / "scripts/install.py"))["for_uv"]


@pytest.mark.parametrize(
    ("pip_config", "options"),
    [
        ("", []),
        ("global.disable-pip-version-check='1'\n", []),
        ("global.index-url='https://mirror/simple'\n", ["--default-index", "https://mirror/simple"]),
        (
            "global.extra-index-url='https://a/simple https://b/simple'\n",
            ["--index-strategy", "unsafe-best-match", "--index", "https://a/simple", "--index", "https://b/simple"],
        ),
        (
            "global.find-links='\\n/opt/wheels\\n/srv/wheels'\n",
            ["--find-links", "/opt/wheels", "--find-links", "/srv/wheels"],
        ),
        ("global.no-index='true'\ninstall.find-links='wheels'\n", ["--no-index", "--find-links", "wheels"]),
        ("global.no-index='false'\n", []),
        (":env:.cert='/env.pem'\nglobal.cert='/file.pem'\ninstall.cert='/install.pem'\n", ["--cert", "/env.pem"]),
        (
            "global.constraint='/etc/caps.txt'\nglobal.trusted-host='mirror'\n",
            ["--constraint", "/etc/caps.txt", "--allow-insecure-host", "mirror"],
        ),
    ],
)
def test_uv_looks_where_pip_is_told_to(pip_config: str, options: list[str]) -> None:
    assert for_uv(pip_config) == options
