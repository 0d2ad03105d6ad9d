"""The tables [[notify]]: what they may say, and that a mistake is named without repeating what may be a secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings import config
from rwkvctl.settings.notify import EVENTS, NotifyTarget, parse

WHERE = "/etc/rwkvctl/config.toml:7"


def test_nobody_is_told_without_a_table() -> None:
    assert parse(None, WHERE) == ()


def test_a_webhook_and_a_command() -> None:
    hook, command = parse(
        [
            {"url": "https://hooks.example/a?b=c", "secret_file": "credential:hook", "events": ["job-failed"]},
            {"name": "mail", "command": ["mail", "-s", "{text}", "me"], "timeout_s": 5},
        ],
        WHERE,
    )
    assert (hook.name, hook.kind, hook.timeout_s) == ("webhook-1", "webhook", 30.0)
    assert hook.wants("job-failed")
    assert not hook.wants("queue-empty")
    assert (command.name, command.kind, command.timeout_s) == ("mail", "command", 5.0)
    assert all(command.wants(event) for event in EVENTS)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({}, "give one of url, url_file and command"),
        ({"url": "https://a.example", "command": ["x"]}, "give one of"),
        ({"url": "ftp://a.example"}, "http or https URL"),
        ({"url": "https://"}, "http or https URL"),
        ({"url": "https://a.example/ b"}, "http or https URL"),
        ({"url": "https://[::1"}, "is not a URL"),
        ({"url": "https://user:pw@a.example"}, "no user and password"),
        ({"url": "http://hooks.example/x"}, "is not local"),
        ({"url": "https://a.example", "events": ["job-faild"]}, "unknown event 'job-faild'"),
        ({"url": "https://a.example", "name": "a b"}, "name must be"),
        ({"url": "https://a.example", "timeout_s": 0}, "timeout_s"),
        ({"url": "https://a.example", "timeout_s": -1.0}, "timeout_s"),
        ({"url": "https://a.example", "margin": -0.1}, "margin"),
        ({"command": []}, "give one of"),
        ({"command": [" "]}, "begin with a program"),
        ({"command": "mail me"}, "command must be a list of texts"),
        ({"command": ["a", 1]}, "command must be a list of texts"),
        ({"url": 3}, "url must be str"),
        ({"url": "https://a.example", "secret": "x"}, "unknown setting 'secret'"),
    ],
)
def test_a_mistake_is_named_with_its_place(table: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{WHERE}: \[\[notify\]\] 1: ") as caught:
        parse([table], WHERE)
    assert says in str(caught.value)
    assert "pw@" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://localhost:9/x", "http://127.0.0.1/x", "http://10.1.2.3/x", "http://[::1]/x"])
def test_plain_http_is_for_what_is_near(url: str) -> None:
    assert parse([{"url": url}], WHERE)[0].url == url
    assert parse([{"url": "http://far.example", "allow_plain_http": True}], WHERE)


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two tables"):
        parse([{"name": "a", "command": ["x"]}, {"name": "a", "command": ["y"]}], WHERE)


@pytest.mark.parametrize("tables", [{}, "x", [1], [[]]])
def test_what_is_no_list_of_tables_is_refused(tables: object) -> None:
    with pytest.raises(ConfigError, match="must be tables"):
        parse(tables, WHERE)


@given(
    st.dictionaries(
        st.sampled_from([*NotifyTarget.__dataclass_fields__, "x"]),
        st.one_of(
            st.text(max_size=20), st.booleans(), st.integers(), st.floats(), st.lists(st.text(max_size=5), max_size=3)
        ),
    )
)
def test_any_table_is_taken_or_refused_in_one_sentence(table: dict[str, object]) -> None:
    said = WHERE
    try:
        parse([table], WHERE)
    except ConfigError as error:
        said = str(error)
    assert said.startswith(WHERE)


def test_the_table_is_read_from_the_file_with_its_line(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(config, "SYSTEM_FILE", tmp_path / "etc.toml")
    environ = {"HOME": str(tmp_path)}
    file = config.user_file(environ)
    file.parent.mkdir(parents=True)
    file.write_text('engine_slots = 4\n\n[[notify]]\nurl = "ftp://x"\n')
    found, origin = config.table("notify", environ)
    assert origin == f"{file}:3"
    with pytest.raises(ConfigError, match=rf"^{file}:3: \[\[notify\]\] 1"):
        parse(found, origin)
