"""[endpoints.NAME]: what a table makes, what the identity depends on, and what is refused with a sentence."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkvctl.protocol.endpoints import APIS, is_api, is_endpoint, name_of, path_of, table_of
from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings.endpoints import EndpointModel, parse, parse_writer

TABLE = {"base_url": "https://models.example/v1/", "model": "QwQ-32B"}


def of(**changes: Any) -> EndpointModel:
    return parse({"qwq": TABLE | changes})["qwq"]


def test_a_table_makes_a_model_with_the_judges_budget_and_an_endpoints_limits() -> None:
    model = of(revision="976055f", budget=100, completion_price=0.9, requests_per_min=60, concurrency=8)
    assert (model.name, model.path, model.api, model.revision) == ("qwq", "endpoint:qwq", "chat", "976055f")
    assert model.service.model == "QwQ-32B"
    assert model.service.budget == 100.0
    assert model.server.base_url == "https://models.example/v1"
    assert (model.server.completion_price, model.server.requests_per_min, model.server.concurrency) == (0.9, 60, 8)


def test_a_chain_of_thought_is_waited_for_longer_than_a_verdict() -> None:
    assert of().service.timeout_s == 1800.0
    assert of(timeout_s=60).service.timeout_s == 60.0


def test_the_identity_is_base_url_model_and_revision_and_nothing_else() -> None:
    same = [of(), of(budget=3), of(concurrency=1), of(prompt_price=2), of(api="completions"), of(keys_file="/k")]
    assert len({model.identity for model in same}) == 1
    assert parse({"other": TABLE})["other"].identity == of().identity
    others = [of(), of(revision="a"), of(model="b"), of(base_url="https://models.example/v2")]
    assert len({model.identity for model in others}) == len(others)
    assert len(of().identity) == 64


def test_the_writer_is_a_model_of_its_own_that_is_asked_in_messages() -> None:
    writer = parse_writer(TABLE | {"budget": 100})
    assert (writer.name, writer.path, writer.api, writer.service.budget) == ("writer", "endpoint:writer", "chat", 100)
    assert table_of(writer.path) == "[writer]"
    assert writer.identity != of().identity
    with pytest.raises(ConfigError, match=r"\[writer\]: the writer is asked in messages; leave api out"):
        parse_writer(TABLE | {"api": "chat"})
    with pytest.raises(ConfigError, match=r"\[writer\]: set model"):
        parse_writer({"base_url": TABLE["base_url"]})
    with pytest.raises(ConfigError, match="'writer' cannot be the name of a model"):
        parse({"writer": TABLE})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"key": "sk-1"}, "unknown setting 'key'"),
        ({"max_runtime_s": 1}, "unknown setting 'max_runtime_s'"),
        ({"structured": True}, "unknown setting 'structured'"),
        ({"endpoints": []}, "unknown setting 'endpoints'"),
        ({"api": "grpc"}, "api must be chat or completions, not 'grpc'"),
        ({"model": ""}, "set model, the model's name at the server"),
        ({"base_url": "http://models.example/v1"}, "allow_plain_http = true"),
        ({"base_url": "https://user:secret@models.example/v1"}, "put keys into keys_file"),
        ({"budget": "much"}, "budget must be float, not str"),
        ({"concurrency": 0}, "concurrency must be at least 1"),
        ({"budget_resets": "weekly"}, "budget_resets must be never or daily"),
    ],
)
def test_what_cannot_be_is_refused_with_the_table_and_the_setting(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        of(**table)
    assert said in str(error.value)
    assert "[endpoints.qwq]" in str(error.value)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("name", ["builtin", "all", "", "a b", "a/b", "endpoint:x", "ä", "-x", "x" * 65])
def test_names_that_mean_something_else_or_could_be_misread_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name of a model"):
        parse({name: TABLE})


@pytest.mark.parametrize("tables", [[], "x", 3, {"qwq": 3}])
def test_no_table_is_refused(tables: object) -> None:
    with pytest.raises(ConfigError, match=r"must be (a table|tables)"):
        parse(tables)


def test_two_names_for_one_model_are_refused_but_not_two_apis_of_it() -> None:
    with pytest.raises(ConfigError, match=r"\[endpoints.b\] and \[endpoints.a\] are one model at one server"):
        parse({"a": TABLE, "b": TABLE})
    assert len(parse({"a": TABLE, "b": TABLE | {"api": "completions"}})) == 2
    assert len(parse({"a": TABLE, "b": TABLE | {"revision": "2"}})) == 2


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True))
def test_a_name_is_found_again_in_its_path(name: str) -> None:
    assert name_of(path_of(name)) == name
    assert is_endpoint(path_of(name))
    assert not is_endpoint(f"/weights/{name}.pth")
    assert table_of(path_of(name)) == f"[endpoints.{name}]"


def test_apis_are_no_numerics_profiles() -> None:
    assert [word for word in ("chat", "completions", "fp32", "fast", "imported", "") if is_api(word)] == [*APIS]
