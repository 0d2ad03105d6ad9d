"""Settings of the judge: tables, environment, and keys that are never shown."""

import dataclasses
import tomllib

import pytest

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings.judge import OPENAI, EndpointConfig, JudgeConfig, checked, from_environment, load, parse
from rwkvctl.settings.secret import Secret

X = "https://x.example/v1"
KEY = "sk-abcdefghijklmnop1234"
TABLE = tomllib.loads("""
model = "judge-x"
budget = 20
budget_resets = "daily"
[[endpoints]]
base_url = "https://judge.example/v1/"
keys_file = "/etc/keys"
requests_per_min = 500
prompt_price = 0.15
[[endpoints]]
base_url = "http://10.0.0.7:8000/v1/chat/completions"
model = "judge-x-awq"
structured = false
""")


def test_a_table_is_read() -> None:
    config = load(TABLE, {})
    assert config is not None
    first, second = config.endpoints
    assert (config.model, config.budget, config.budget_resets) == ("judge-x", 20.0, "daily")
    assert (first.base_url, first.keys_file, first.requests_per_min) == ("https://judge.example/v1", "/etc/keys", 500)
    assert (first.label, second.label) == ("judge.example", "10.0.0.7:8000")
    assert (second.base_url, second.model, second.structured) == ("http://10.0.0.7:8000/v1", "judge-x-awq", False)


def test_without_anything_there_is_no_judge() -> None:
    assert load(None, {}) is None
    assert load(None, {"OPENAI_API_KEY": KEY, "API_BASE": "https://x.example/v1"}) is None
    assert load(None, {}, section="checker") is None


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"modle": "x"}, r"c.toml: \[judge\]: unknown setting 'modle'"),
        ({"endpoints": [{"base_url": "https://x.example", "key": KEY}]}, r"\[\[judge.endpoints\]\] 1: unknown .*'key'"),
        ({"endpoints": [{"base_url": "https://x.example"}, {"api_key": KEY}]}, "endpoints]] 2: unknown setting"),
        ({"endpoints": "https://x.example"}, "endpoints must be tables"),
        ({"model": "x", "timeout_s": "long"}, "timeout_s must be float, not str"),
        ({"model": "x", "budget": -1}, "budget must be a finite number"),
        ({"model": "x", "budget": float("inf")}, "budget must be a finite number"),
        ({"model": "x", "max_tries": True}, "max_tries must be int, not bool"),
        ({"model": "x"}, "no endpoint"),
        ({"model": "x", "budget_resets": "weekly", "endpoints": [{"base_url": "https://x.example"}]}, "budget_resets"),
        ({"endpoints": [{"base_url": "https://x.example"}]}, "set model"),
        ({"endpoints": [{"base_url": X, "model": "a"}, {"base_url": X, "model": "b"}]}, "set model"),
        ({"model": "x", "endpoints": [{"base_url": "ftp://x.example"}]}, "http or https"),
        ({"model": "x", "endpoints": [{"base_url": ""}]}, "http or https"),
        ({"model": "x", "endpoints": [{"base_url": "https://"}]}, "http or https"),
        ({"model": "x", "endpoints": [{"base_url": "https://x.example:99999/v1"}]}, "not a URL"),
        ({"model": "x", "endpoints": [{"base_url": f"https://user:{KEY}@x.example"}]}, "no user, password"),
        ({"model": "x", "endpoints": [{"base_url": f"https://x.example/?key={KEY}"}]}, "no user, password"),
        ({"model": "x", "endpoints": [{"base_url": "http://x.example"}]}, "use https"),
        ({"model": "x", "endpoints": [{"base_url": "http://8.8.8.8/v1"}]}, "use https"),
        ({"model": "x", "endpoints": [{"base_url": "http://127.0.0.1.x.example/v1"}]}, "use https"),
        ({"model": "x", "endpoints": [{"base_url": "http://169.254.169.254/v1"}]}, "use https"),
        ({"model": "x", "endpoints": [{"base_url": "https://x.example", "concurrency": 0}]}, "concurrency"),
        ({"model": "x", "endpoints": [{"base_url": "https://x.example", "keys_file": [KEY]}]}, "must be str, not list"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named_and_keys_are_not(table: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        load(table, {}, origin="c.toml")
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://localhost:8000/v1", "http://127.0.0.1/v1", "http://[::1]:8/v1", "http://192.168.1.9/v1", "http://[fd00::1]/v1"]
)  # fmt: skip
def test_plain_http_is_for_local_addresses(url: str) -> None:
    assert load({"model": "x", "endpoints": [{"base_url": url}]}, {}) is not None


def test_plain_http_elsewhere_if_told_to() -> None:
    endpoint = {"base_url": "http://judge.example/v1", "allow_plain_http": True}
    assert load({"model": "x", "endpoints": [endpoint]}, {}) is not None


@pytest.mark.parametrize(
    ("environ", "model", "url", "key"),
    [
        ({"JUDGE_MODEL": "m"}, "m", None, None),
        ({"JUDGE_MODEL": "m", "JUDGE_API_KEY": KEY}, "m", OPENAI, KEY),
        ({"LLM_JUDGE_MODEL": "m", "OPENAI_API_KEY": KEY, "LLM_JUDGE_BASE_URL": X}, "m", X, KEY),
        ({"JUDGE_MODEL": "m", "LLM_JUDGE_MODEL": "n", "API_KEY": KEY, "API_BASE": f"{X}/"}, "m", X, KEY),
        ({"JUDGE_MODEL": "m", "JUDGE_API_KEY": KEY, "OPENAI_API_KEY": "other", "API_BASE": X}, "m", X, KEY),
        ({"JUDGE_MODEL": "m", "JUDGE_API_KEY": "", "API_KEY": KEY}, "m", OPENAI, KEY),
        ({"CHECKER_MODEL": "m", "CHECKER_API_KEY": KEY}, None, None, None),
    ],
)  # fmt: skip
def test_the_names_of_rwkv_skills(environ: dict[str, str], model: str | None, url: str | None, key: str | None) -> None:
    found = from_environment(environ)
    assert (found and found.model) == model
    endpoints = found.endpoints if found else ()
    assert [(one.base_url, one.key and one.key.reveal()) for one in endpoints] == ([(url, key)] if url else [])
    assert KEY not in repr(found)


def test_the_environment_wins_over_the_file_and_keeps_its_key_to_itself() -> None:
    config = load(TABLE, {"JUDGE_MODEL": "other", "OPENAI_API_KEY": KEY})
    assert config is not None
    assert (config.model, config.budget, len(config.endpoints)) == ("other", 20.0, 1)
    assert config.endpoints[0].base_url == OPENAI
    only_model = load(TABLE, {"JUDGE_MODEL": "other"})
    assert only_model is not None
    assert (only_model.model, len(only_model.endpoints)) == ("other", 2)
    assert [(one.model, one.key) for one in only_model.endpoints] == [("", None), ("", None)]
    unused = load(TABLE, {"OPENAI_API_KEY": KEY})
    assert unused is not None
    assert [one.key for one in unused.endpoints] == [None, None]


def test_the_checker_has_names_of_its_own() -> None:
    environ = {
        "JUDGE_MODEL": "m",
        "JUDGE_API_KEY": KEY,
        "CHECKER_MODEL": "c",
        "CHECKER_MAX_WORKERS": "3",
        "CHECKER_MAX_RETRIES": "4",
        "CHECKER_MAX_PROMPT_CHARS": "9000",
    }
    config = load(None, environ, section="checker")
    assert config is not None
    assert (config.model, config.max_tries, config.max_prompt_chars) == ("c", 5, 9000)
    assert (config.endpoints[0].concurrency, config.endpoints[0].key) == (3, Secret(KEY))
    forever = load(None, environ | {"CHECKER_MAX_RETRIES": "-1"}, section="checker")
    assert forever is not None
    assert forever.max_tries > 100_000
    assert load(None, {"JUDGE_MODEL": "m", "JUDGE_API_KEY": KEY}, section="checker") is None
    with pytest.raises(ConfigError, match="CHECKER_MAX_WORKERS"):
        load(None, environ | {"CHECKER_MAX_WORKERS": "many"}, section="checker")


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "caf\u00e9", "tab\there"])
def test_what_breaks_a_header_is_no_key(key: str) -> None:
    with pytest.raises(ConfigError, match="is not a key") as caught:
        load(None, {"JUDGE_MODEL": "m", "JUDGE_API_KEY": key})
    assert key not in str(caught.value)


def test_a_secret_shows_only_its_end() -> None:
    secret = Secret(KEY)
    config = JudgeConfig(endpoints=(EndpointConfig(key=secret),))
    shown = f"{secret} {secret!r} {[secret]} {config} {dataclasses.replace(config)!r}"
    assert KEY not in shown
    assert shown.startswith("…1234 …1234 […1234]")
    assert str(Secret("short")) == "…"
    assert secret.reveal() == KEY
    assert secret == Secret(KEY)
    assert len({secret, Secret(KEY), Secret("other")}) == 2


def test_every_setting_says_what_it_means() -> None:
    for kind in (JudgeConfig, EndpointConfig):
        for field in dataclasses.fields(kind):
            assert field.metadata["help"] or field.metadata["internal"], field.name


def test_a_model_may_stand_at_the_endpoint() -> None:
    config = checked(parse({"endpoints": [{"base_url": "https://x.example", "model": "m"}]}), "here")
    assert config.model == "m"
