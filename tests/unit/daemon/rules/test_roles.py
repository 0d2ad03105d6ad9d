"""Who may ask for what, as a table."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rwkv_daemon.api import grants
from rwkv_daemon.api.grants import Grants, Names
from rwkv_daemon.changes import caller
from rwkv_daemon.rules import roles
from rwkv_daemon.rules.roles import Actor, Role
from rwkvctl.http.peer_credentials import Peer
from rwkvctl.protocol.errors import ConfigError, Exit, RefusedError
from rwkvctl.protocol.gpus import GpuProbe
from rwkvctl.protocol.requests import JudgeRetry, NamedCheckpoint, PlanRequest, Selection, StatusRequest, StopRequest
from rwkvctl.protocol.routes import ROUTES
from rwkvctl.protocol.service import ReloadRequest

USERS = {"alice": 1001, "bob": 1002}
GROUPS = {"rwkvctl": 900, "wheel": 10, "lab": 50}
DAEMON = 998


class Known(Names):
    """A machine with a few users and groups."""

    def uid(self, name: str) -> int | None:
        return USERS.get(name)

    def gid(self, name: str) -> int | None:
        return GROUPS.get(name)


def granted(table: dict[str, object]) -> Grants:
    found, _ = grants.granted(table, "config.toml", Known())
    return Grants(found.users, found.groups, own=DAEMON)


def role(table: dict[str, object], uid: int, *groups: int) -> Role:
    return granted(table).role(Peer(1, uid, groups[0] if groups else uid, groups[1:]))


# -- the table of requests


def test_every_request_has_a_role() -> None:
    missing = [request.__name__ for request in ROUTES if request not in roles.LEAST]
    assert not missing, f"say in rwkv_daemon.rules.roles.LEAST who may ask for {missing}"
    assert set(roles.LEAST) <= set(ROUTES)


def test_what_changes_something_is_not_for_viewers() -> None:
    wrong = [request.__name__ for request in ROUTES if roles.changes(request) and roles.least(request) < Role.OPERATOR]
    assert not wrong


def test_only_an_admin_names_a_command_that_the_daemon_runs_or_changes_its_configuration() -> None:
    assert {request for request, role in roles.LEAST.items() if role is Role.ADMIN} == {GpuProbe, ReloadRequest}


def test_only_requests_with_a_body_can_be_reads_by_exception() -> None:
    assert all(ROUTES[request][0] == "POST" for request in roles.READS)


def test_a_request_that_is_in_no_table_needs_an_admin() -> None:
    class Strange(msgspec.Struct):
        pass

    assert roles.least(Strange) is Role.ADMIN


# -- roles by uid and groups


@pytest.mark.parametrize(
    ("table", "uid", "groups", "expected"),
    [
        ({}, 0, (), Role.ADMIN),
        ({}, DAEMON, (), Role.ADMIN),
        ({}, 1001, (1001,), Role.VIEWER),
        ({}, 1001, (1001, 900), Role.OPERATOR),
        ({}, 1001, (900,), Role.OPERATOR),
        ({"operator": []}, 1001, (1001, 900), Role.VIEWER),
        ({"operator": ["alice"]}, 1001, (), Role.OPERATOR),
        ({"operator": ["alice"]}, 1002, (), Role.VIEWER),
        ({"operator": [1002]}, 1002, (), Role.OPERATOR),
        ({"operator": ["1002"]}, 1002, (), Role.OPERATOR),
        ({"admin": ["@wheel"]}, 1002, (1002, 10), Role.ADMIN),
        ({"admin": ["@10"]}, 1002, (1002, 10), Role.ADMIN),
        ({"admin": ["alice"], "viewer": ["alice"]}, 1001, (), Role.ADMIN),
        ({"viewer": ["alice"], "operator": ["@lab"]}, 1001, (1001, 50), Role.OPERATOR),
        ({"viewer": ["root"]}, 0, (), Role.ADMIN),
        ({"admin": ["@alice"]}, 1001, (), Role.VIEWER),
    ],
)
def test_the_highest_role_counts(table: dict[str, object], uid: int, groups: tuple[int, ...], expected: Role) -> None:
    assert role(table, uid, *groups) is expected


def test_a_name_that_nobody_has_gives_no_right_and_is_said() -> None:
    found, strange = grants.granted({"admin": ["carol", "@nobodys"]}, "/etc/rwkvctl/config.toml", Known())
    assert (found.users, found.groups) == ({}, {900: Role.OPERATOR})
    assert [text.partition(":")[0] for text in strange] == ["/etc/rwkvctl/config.toml"] * 2
    assert "'carol'" in strange[0]
    assert "'@nobodys'" in strange[1]


def test_a_machine_without_the_group_is_no_fault() -> None:
    class Bare(Known):
        def gid(self, name: str) -> int | None:
            assert name == "rwkvctl"
            return None

    assert grants.granted({}, "environment", Bare()) == (Grants(), ())


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"superuser": ["alice"]}, "a role is viewer, operator or admin, not 'superuser'"),
        ({"admin": "alice"}, "admin must list users and groups"),
        ({"admin": [True]}, "admin must list"),
        ({"admin": [["alice"]]}, "admin must list"),
        ({"admin": {"alice": 1}}, "admin must list"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(table: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        grants.granted(table, "config.toml", Known())


ENTRY = st.sampled_from(["alice", "bob", "@lab", "@wheel", "@rwkvctl", 1001, 1002])


@given(
    st.dictionaries(st.sampled_from(["viewer", "operator", "admin"]), st.lists(ENTRY), max_size=3),
    st.sampled_from([1001, 1002]),
    st.lists(st.sampled_from([10, 50, 900]), unique=True),
    st.sampled_from(["viewer", "operator", "admin"]),
    ENTRY,
)
def test_one_more_entry_never_takes_a_right_away(
    table: dict[str, object], uid: int, groups: list[int], word: str, entry: object
) -> None:
    before = role({"operator": []} | table, uid, uid, *groups)
    listed = table.get(word, [])
    assert isinstance(listed, list)
    assert role({"operator": []} | table | {word: [*listed, entry]}, uid, uid, *groups) >= before


# -- refusals


def test_a_refusal_says_what_is_needed_and_who_can_grant_it() -> None:
    roles.refuse(StatusRequest(), Role.VIEWER, Actor(1001, 1001, 7, "alice"))
    roles.refuse(StopRequest(), Role.OPERATOR, Actor(1001, 1001, 7, "alice"))
    with pytest.raises(RefusedError) as caught:
        roles.refuse(StopRequest(), Role.VIEWER, Actor(1001, 1001, 7, "alice"))
    error = caught.value
    assert (error.code, error.exit_code) == ("role", Exit.REFUSED)
    assert error.detail == "alice is a viewer here, and `stop` needs an operator: nothing was changed."
    assert "[roles] operator in config.toml" in error.hint
    with pytest.raises(RefusedError, match="tokens_file"):
        roles.refuse(JudgeRetry(), Role.VIEWER, Actor(-1, -1, 0, "dashboard"))


def test_files_are_looked_at_by_path_for_operators_alone() -> None:
    secret = (NamedCheckpoint(path="/home/bob/secret.pth", name="x"),)
    assert roles.needed(PlanRequest()) is Role.VIEWER
    for by_path in (Selection(checkpoints=secret), Selection(files=secret)):
        assert roles.needed(PlanRequest(selection=by_path)) is Role.OPERATOR
        with pytest.raises(RefusedError, match="`queue` of checkpoints by path needs an operator"):
            roles.refuse(PlanRequest(selection=by_path), Role.VIEWER, Actor(1001, 1001, 7, "alice"))


def test_outside_of_a_request_the_daemon_is_the_actor() -> None:
    assert caller.caller().name == "daemon"
    token = caller.CALLER.set(Actor(1, 2, 3, "x"))
    assert caller.caller() == Actor(1, 2, 3, "x")
    caller.CALLER.reset(token)
