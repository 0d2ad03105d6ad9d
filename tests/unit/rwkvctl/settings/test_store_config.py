"""The setting `store`: what may stand in the open, and what may not."""

from pathlib import Path

import pytest

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config, store_url


@pytest.mark.parametrize(
    "text",
    ["", "/etc/rwkvctl/store.url", "credential:store", "postgresql://me@db/x", "postgres:///x?host=/run/postgresql"],
)
def test_what_holds_no_password_is_taken(text: str) -> None:
    assert store_url.checked(text, "config.toml") == text


@pytest.mark.parametrize(
    "text",
    ["postgresql://me:hunter2@db/x", "postgres://:hunter2@db", "postgresql:///x?host=/run&password=hunter2"],
)
def test_a_password_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.toml: store must not hold a password") as refused:
        store_url.checked(text, "config.toml")
    assert "hunter2" not in str(refused.value)


def test_a_url_that_is_none_is_said_without_it() -> None:
    with pytest.raises(ConfigError, match="not a URL") as refused:
        store_url.checked("postgresql://[me:hunter2@db/x", "flag --to")
    assert "hunter2" not in str(refused.value)


def test_the_environment_is_checked_too_and_config_show_says_where_the_store_is(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    with pytest.raises(ConfigError, match="RWKVCTL_STORE"):
        config.load({"home": "/h"}, home | {"RWKVCTL_STORE": "postgresql://me:hunter2@db/x"})
    shown = {value.name: value.value for value in config.load({"home": "/h"}, home).values()}
    assert shown["store"] == "/h/store.sqlite"
    given = config.load({"home": "/h"}, home | {"RWKVCTL_STORE": "postgresql://me@db/x"})
    assert {value.name: value.value for value in given.values()}["store"] == "postgresql://me@db/x"


@pytest.mark.parametrize("sign", list("/#?"))
def test_a_password_that_would_be_taken_for_a_host_is_refused_and_not_repeated(sign: str) -> None:
    with pytest.raises(ConfigError, match="is not a URL") as refused:
        store_url.checked(f"postgresql://me:hunter2{sign}x@db/x", "config.toml")
    assert "hunter2" not in str(refused.value)
