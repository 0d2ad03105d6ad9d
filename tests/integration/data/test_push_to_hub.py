"""Rows that are written and pushed: the real client of the hub against a hub on loopback."""

import errno
import importlib.util
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import msgspec
import pytest
from push_hub import TOKEN, PushHub, Refusal, Repo, push_hub
from training_rows import plain_row
from waiting import LIMIT_S, wait_for

from rwkv_data.__main__ import main
from rwkv_data.recipes.files import parquet_folder, row_files
from rwkv_data.recipes.files.training_row import TrainingRow
from rwkv_data.recipes.hub import dataset_repo, pushing
from rwkv_data.recipes.hub.foreign_files import foreign_files
from rwkvctl.protocol.errors import Exit

REPO = "lab/sky"
ROWS = [plain_row(f"Question {number}?", f"Answer {number}.", number=number) for number in range(40)]
WRITE = ("write-rows", "--format", "parquet", "--roles", "human/gpt")
FIRST = "data/train-00000-of-00001.parquet"


def piped(rows: list[TrainingRow], count: int | None = None) -> bytes:
    """Rows as the command line sends them."""
    head = {"rows": len(rows) if count is None else count, "card": {"title": "r3"}}
    return b"".join(line + b"\n" for line in (json.dumps(head).encode(), *map(msgspec.json.encode, rows)))


@dataclass
class Ran:
    """What a run left behind."""

    code: int
    out: str
    err: str


Push = Callable[..., Ran]


def checked(ran: Ran) -> Ran:
    """Whatever happens, no output has the token, and an error is one line. `err` is without what is said of a push that
    begins."""
    assert TOKEN not in ran.out + ran.err
    assert "Traceback" not in ran.err
    lines = [line for line in ran.err.splitlines(keepends=True) if not line.startswith("pushing to http")]
    assert len(lines) == (ran.code != 0), ran.err
    return Ran(ran.code, ran.out, "".join(lines))


@pytest.fixture
def hub() -> Iterator[PushHub]:
    with push_hub() as server:
        yield server


@pytest.fixture
def push(
    hub: PushHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Push]:
    """Write rows to tmp_path/sky and push them in this process, by LFS and without the pauses of the client."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="needs huggingface_hub: not installed")
    http = pytest.importorskip("huggingface_hub.utils._http")
    for name in [name for name in os.environ if name.startswith("HF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "hf" / "token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)  # set too late for a library that is imported
    for module in (http, dataset_repo):
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=lambda _seconds: None))

    def run(*words: str, rows: list[TrainingRow] = ROWS, repo: str = REPO) -> Ran:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(_file(piped(rows), tmp_path))))
        given = [*WRITE, f"--to={tmp_path / 'sky'}", f"--push-to-hub={repo}", *words]
        try:
            code = main(given)
        finally:
            sys.stdin.buffer.close()
        return checked(Ran(code, *capsys.readouterr()))

    yield run
    http.set_client_factory(http.default_client_factory)


def _file(content: bytes, folder: Path) -> io.FileIO:
    place = folder / "piped"
    place.write_bytes(content)
    return io.FileIO(place)


def test_a_new_repository_is_private_and_has_the_folder_as_it_lies(hub: PushHub, push: Push, tmp_path: Path) -> None:
    ran = push()
    assert ran.code == Exit.OK, ran.err
    repo = hub.repos[REPO]
    assert repo.private
    lies = {path.relative_to(tmp_path / "sky").as_posix(): path.read_bytes()
            for path in (tmp_path / "sky").rglob("*") if path.is_file()}  # fmt: skip
    assert {path: content for path, content in repo.files.items() if path != ".gitattributes"} == lies
    assert len(repo.commits) == 2
    last = ran.out.splitlines()[-1]
    assert last == f"pushed to {hub.url}/datasets/{REPO} (private), commit {repo.head()}"


def test_json_is_one_document_that_says_where_the_rows_are(hub: PushHub, push: Push) -> None:
    told = json.loads(push("--json", "--public").out)["pushed"]
    assert told == {"repo": REPO, "url": f"{hub.url}/datasets/{REPO}", "commit": hub.repos[REPO].head(),
                    "private": False, "created": True, "changed": True}  # fmt: skip


def test_a_public_repository_is_refused_before_anything_is_written(hub: PushHub, push: Push, tmp_path: Path) -> None:
    hub.repos[REPO] = Repo(private=False)
    ran = push()
    assert (ran.code, "is public: give --public" in ran.err) == (Exit.REFUSED, True)
    assert not (tmp_path / "sky").exists()
    assert not hub.asked("POST")
    assert push("--public").code == Exit.OK
    assert not hub.repos[REPO].private


def test_a_repository_that_becomes_public_meanwhile_is_refused(hub: PushHub, push: Push, tmp_path: Path) -> None:
    def made_public() -> None:
        hub.repos.setdefault(REPO, Repo(private=True)).private = False

    hub.before["POST /api/repos/create"] = made_public
    ran = push()
    assert (ran.code, "is public" in ran.err) == (Exit.REFUSED, True)
    assert f"{tmp_path / 'sky'} is written, and is kept when you push again." in ran.err
    assert not hub.asked("preupload")


def test_a_private_repository_stays_private(hub: PushHub, push: Push) -> None:
    hub.repos[REPO] = Repo(private=True)
    ran = push("--public")
    assert "is private, and stays so" in ran.out
    assert f"{REPO} (private), commit" in ran.out
    assert hub.repos[REPO].private
    assert not hub.asked("create")


def test_a_second_push_replaces_the_rows_of_the_first_in_one_commit(
    hub: PushHub, push: Push, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as small:
        small.setattr(parquet_folder, "GROUP_ROWS", 10)
        small.setattr(parquet_folder, "SHARD_BYTES", 500)
        assert push().code == Exit.OK
    repo = hub.repos[REPO]
    assert len([path for path in repo.files if path.endswith(".parquet")]) == 4
    others = {"notes/plan.md": b"x", "data/test.parquet": b"theirs", "a.parquet": b"theirs"}
    repo.commits.append(repo.files | others)
    assert push("--replace", rows=ROWS[:5]).code == Exit.OK
    assert len(repo.commits) == 4
    assert set(repo.files) == {".gitattributes", "README.md", "lineage.jsonl", FIRST, *others}
    assert others.items() <= repo.files.items()
    assert repo.files["lineage.jsonl"].count(b"\n") == 5


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (["README.md"], "has files that no export has pushed (README.md), and its card"),
        (["README.md", FIRST], f"has files that no export has pushed (README.md, {FIRST}), and its card"),
        (["train.csv.gz", "LICENSE"], "has files that no export has pushed (train.csv.gz), and its card"),
        ([f"{n}.jsonl" for n in range(7)], "(0.jsonl, 1.jsonl, 2.jsonl, 3.jsonl, 4.jsonl and 2 more)"),
        (["\x1b[2J.csv"], "(␛[2J.csv)"),
    ],
)
def test_files_that_no_export_pushed_are_not_replaced(
    hub: PushHub, push: Push, tmp_path: Path, files: list[str], says: str
) -> None:
    hub.repos[REPO] = Repo(private=True, commits=[dict.fromkeys(files, b"mine")])
    ran = push()
    assert (ran.code, says in ran.err) == (Exit.REFUSED, True), ran.err
    assert ran.err.endswith(": delete or rename them there, or push to another name.\n")
    assert not (tmp_path / "sky").exists()
    assert not hub.asked("POST")


def test_files_that_would_be_loaded_along_are_refused_by_name(hub: PushHub, push: Push) -> None:
    assert push().code == Exit.OK
    repo = hub.repos[REPO]
    for path in ("data/test-00000-of-00001.parquet", "data/train-00000-of-00001-0a1b.csv", ".huggingface.yaml"):
        repo.commits.append(repo.commits[1] | {path: b"theirs"})
        before = len(repo.commits)
        ran = push("--replace", rows=ROWS[:5])
        assert ran.code == Exit.REFUSED
        assert f"has files that datasets would load along with the rows ({path}): delete or rename" in ran.err
        assert len(repo.commits) == before


def test_the_card_of_an_earlier_push_is_replaced(hub: PushHub, push: Push) -> None:
    assert push().code == Exit.OK
    repo = hub.repos[REPO]
    card = repo.files["README.md"]
    repo.commits.append(repo.files | {"README.md": card + b"edited on the hub"})
    assert push().code == Exit.OK
    assert repo.files["README.md"] == card


def test_a_renamed_repository_is_refused_with_its_new_name(hub: PushHub, push: Push, tmp_path: Path) -> None:
    """The hub redirects whoever asks for the old name."""
    hub.repos["lab/sea"] = Repo(private=True)
    hub.refusals.append(Refusal(f"/api/datasets/{REPO}", 307, headers={"Location": "/api/datasets/lab/sea"}))
    ran = push()
    assert ran.code == Exit.REFUSED
    assert ran.err.endswith(f"{hub.url}/datasets/{REPO} is called lab/sea now: give --push-to-hub=lab/sea.\n")
    assert not (tmp_path / "sky").exists()
    assert not hub.asked("POST")
    assert push(repo="lab/sea").code == Exit.OK


def test_a_repository_that_becomes_public_during_the_upload_gets_no_commit(hub: PushHub, push: Push) -> None:
    hub.before["PUT /storage"] = lambda: setattr(hub.repos[REPO], "private", False)
    ran = push()
    assert (ran.code, "is public: give --public" in ran.err) == (Exit.REFUSED, True)
    assert (bool(hub.stored), len(hub.repos[REPO].commits)) == (True, 1)
    hub.repos.clear()
    hub.stored.clear()
    ran = push("--public")
    assert (ran.code, f"{REPO} (public), commit" in ran.out) == (Exit.OK, True)


def test_a_repository_that_is_deleted_during_the_upload_is_one_sentence(hub: PushHub, push: Push) -> None:
    hub.before["PUT /storage"] = lambda: hub.repos.pop(REPO)
    ran = push()
    assert (ran.code, f"There is no {hub.url}/datasets/{REPO} that the token may see" in ran.err) == (5, True)


def test_a_hub_that_creates_another_repository_is_asked_a_few_times(
    hub: PushHub, push: Push, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = list[float]()
    monkeypatch.setattr(dataset_repo, "time", SimpleNamespace(sleep=pauses.append))
    hub.refusals.append(Refusal("repos/create", 409, CONFLICT, times=3))
    assert push().code == Exit.OK
    assert (len(hub.asked("repos/create")), pauses) == (4, [dataset_repo.CONFLICT_PAUSE_S] * 2)
    hub.repos.clear()
    hub.seen.clear()
    hub.refusals[:] = [Refusal("repos/create", 409, CONFLICT)]
    ran = push()
    assert (ran.code, "is creating another repository for lab: push again in a minute." in ran.err) == (5, True)
    assert len(hub.asked("repos/create")) == dataset_repo.MOST_CONFLICTS


def test_a_full_disk_is_said_where_rows_are_compared(
    hub: PushHub, push: Push, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert push().code == Exit.OK

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(row_files, "lineage_line", full)
    ran = push()
    assert (ran.code, f"no space is left in {tmp_path}, where they are written for that; free" in ran.err) == (1, True)


def test_the_same_rows_are_kept_and_pushed_once(hub: PushHub, push: Push, tmp_path: Path) -> None:
    hub.refusals.append(Refusal("POST .*/commit/", 503, times=1))
    ran = push()
    assert (ran.code, "answers 503: try later." in ran.err) == (Exit.FAILED, True)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "sky").rglob("*")}
    assert push().code == Exit.OK
    assert "kept" in (ran := push()).out
    assert f"already up to date: {hub.url}/datasets/{REPO} (private), commit" in ran.out
    assert len(hub.repos[REPO].commits) == 2
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "sky").rglob("*")} == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "piped") == ["sky"]


def test_other_rows_are_never_pushed_in_the_place_of_those_in_the_folder(
    hub: PushHub, push: Push, tmp_path: Path
) -> None:
    assert push().code == Exit.OK
    commits = len(hub.repos[REPO].commits)
    ran = push(rows=ROWS[:3])
    assert (ran.code, "already exists with other rows, lineage or card" in ran.err) == (Exit.REFUSED, True)
    (tmp_path / "sky" / "README.md").write_text("---\nrwkvctl: {}\n---\n")
    assert push().code == Exit.REFUSED
    assert len(hub.repos[REPO].commits) == commits


def test_a_file_that_changes_while_it_is_pushed_is_not_committed(hub: PushHub, push: Push, tmp_path: Path) -> None:
    hub.before["/preupload/"] = lambda: (tmp_path / "sky" / "lineage.jsonl").write_text("another\n")
    ran = push()
    assert (ran.code, "lineage.jsonl was changed while it was pushed" in ran.err) == (Exit.REFUSED, True)
    assert len(hub.repos[REPO].commits) == 1


def test_a_folder_that_is_changed_before_it_is_pushed_is_not_pushed(
    hub: PushHub, push: Push, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = pushing.end_with

    def spoil(pipe: IO[bytes]) -> None:
        usual(pipe)
        shard = tmp_path / "sky" / FIRST
        shard.write_bytes(shard.read_bytes()[:-1])

    monkeypatch.setattr(pushing, "end_with", spoil)
    ran = push()
    assert (ran.code, "was changed after it was written, so it is not pushed" in ran.err) == (Exit.REFUSED, True)
    assert not hub.asked("POST")


def test_a_gitignore_of_the_repository_leaves_nothing_out(hub: PushHub, push: Push) -> None:
    hub.repos[REPO] = Repo(private=True, commits=[{".gitignore": b"data/\nlineage.jsonl\n"}])
    assert push().code == Exit.OK
    assert {FIRST, "lineage.jsonl", "README.md"} <= hub.repos[REPO].files.keys()


def test_a_push_of_somebody_else_meanwhile_is_noticed(hub: PushHub, push: Push) -> None:
    hub.repos[REPO] = Repo(private=True)
    hub.before["/commit/"] = lambda: hub.repos[REPO].commits.append({"theirs": b"x"})
    ran = push()
    assert (ran.code, "somebody else has changed lab/sky meanwhile" in ran.err) == (Exit.REFUSED, True)
    assert hub.repos[REPO].files == {"theirs": b"x"}


CONFLICT = b'{"error": "Cannot create repo: another conflicting operation is in progress"}'
HOSTILE = json.dumps({"error": "\x1b[2J\u202eno\nAUTHORIZATION " + "x" * 5000}).encode()
INVALID = {"X-Error-Message": "Invalid credentials in Authorization header"}
REFUSALS = [
    (Refusal("GET", 401, headers=INVALID), 5, "does not accept the token"),
    (Refusal("GET", 403), 5, "does not let this token write to lab/sky"),
    (Refusal("GET", 500, HOSTILE), 1, "answers 500"),
    (Refusal("GET", 429, headers={"Retry-After": "3600"}), 1, "answers 429, to be asked again in 3,600 s: try later."),
    (Refusal("GET", 200, b"[]", {"Content-Type": "application/json"}), 1, "an answer that cannot be used"),
    (Refusal("GET", 200, b"<html>"), 1, "an answer that cannot be used"),
    (Refusal("GET", 200, b"{}", {"Content-Type": "application/json"}), 1, "an answer that cannot be used"),
    (Refusal("create", 403, HOSTILE), 5, "does not let this token write to lab/sky (it says: "),
    (Refusal("create", 402, b'{"error": "pay"}'), 5, "wants to be paid for this (it says: pay): see what lab may"),
    (Refusal("create", 409, b'{"url": "http://h/datasets/lab/sky"}'), 5, "There is no http://127.0.0.1:"),
    (Refusal("create", 409, CONFLICT), 5, "is creating another repository for lab: push again in a minute."),
    (Refusal("preupload", 403), 5, "does not let this token write"),
    (Refusal("preupload", 413, HOSTILE), 5, "does not take this much data"),
    (Refusal("preupload", 502), 1, "answers 502"),
    (Refusal("preupload", 429, headers={"ratelimit": '"api";r=0;t=300'}), 1, "to be asked again in 300 s"),
    (Refusal("preupload", 200, b'{"files": [{}]}'), 1, "an answer that cannot be used"),
    (Refusal("objects/batch", 403), 5, "does not let this token write"),
    (Refusal("PUT /storage", 503), 1, "answers 503"),
    (Refusal("PUT /storage", 400), 5, "refuses with 400"),
    (Refusal("validate-yaml", 400, b'{"errors": [{"message": "no \\u001b card"}]}'), 5, "(it says: no ␛ card)"),
    (Refusal("commit/", 404, headers={"X-Error-Code": "RepoNotFound"}), 4, "has no lab/sky, or the token may not see"),
    (Refusal("commit/", 409), 5, "is at work on lab/sky for somebody else: push again"),
    (Refusal("commit/", 500, b"\xff\x1b]0;x\x07", {"Content-Type": "text/plain"}), 1, "answers 500"),
    (Refusal("commit/", 200, b'{"commitOid": "\\u001b", "commitUrl": ""}'), 1, "an answer that cannot be used"),
]  # fmt: skip


@pytest.mark.parametrize(("refusal", "code", "says"), REFUSALS)
def test_what_a_hub_answers_is_one_sentence(
    hub: PushHub, push: Push, tmp_path: Path, refusal: Refusal, code: int, says: str
) -> None:
    hub.refusals.append(refusal)
    ran = push()
    assert (ran.code, says in ran.err) == (code, True), ran.err
    assert not set(ran.err) & set("\x1b\x07\u202e")
    assert len(ran.err) < 700
    looked = refusal.pattern == "GET"
    assert (tmp_path / "sky").exists() == ("is kept when you push again" in ran.err) == (not looked)
    hub.refusals.clear()
    assert push().code == Exit.OK


def test_a_hub_that_is_not_there_or_silent_is_one_sentence(
    hub: PushHub, push: Push, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants = sys.modules["huggingface_hub.constants"]
    with socket.socket() as closed, monkeypatch.context() as away:
        closed.bind(("127.0.0.1", 0))
        away.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        ran = push()
    assert (ran.code, "does not answer (ConnectError: " in ran.err) == (Exit.FAILED, True)
    assert "see HF_ENDPOINT and the network." in ran.err
    release = threading.Event()
    hub.before["/api/datasets"] = lambda: release.wait(LIMIT_S)
    monkeypatch.setattr(dataset_repo, "TIMEOUTS_S", (30.0, 0.1, 30.0, 30.0))
    ran = push()
    release.set()
    assert (ran.code, "does not answer (ReadTimeout: " in ran.err) == (Exit.FAILED, True)


SETTINGS = "see HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE."
SOCKS = "HTTPS_PROXY or ALL_PROXY names a SOCKS proxy, which needs the package socksio: install it, or name an HTTP"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1080", SOCKS),
        ("HTTPS_PROXY", "socks5h://me:pass@127.0.0.1:1080", SOCKS),
        ("HTTPS_PROXY", "ftp://me:pass@127.0.0.1", SETTINGS),
        ("HTTPS_PROXY", "http://[::bad", SETTINGS),
        ("SSL_CERT_FILE", "/nonexistent", SETTINGS),
        ("SSL_CERT_FILE", os.devnull, SETTINGS),
    ],
)
def test_a_client_that_cannot_be_set_up_is_no_fault_of_the_hub(
    hub: PushHub, push: Push, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    if value.startswith("socks") and importlib.util.find_spec("socksio"):
        pytest.skip("socksio is installed")
    for other in ("HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE"):
        monkeypatch.delenv(other, raising=False)
        monkeypatch.delenv(other.lower(), raising=False)
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.modules["huggingface_hub.constants"], "HF_HUB_DISABLE_XET", False)
    ran = push()
    assert (ran.code, says in ran.err) == (Exit.FAILED, True), ran.err
    assert not [word for word in ("xet", "pass", "HF_ENDPOINT") if word in ran.err]
    assert not hub.seen
    assert not (tmp_path / "sky").exists()


def test_only_an_upload_is_a_fault_of_the_xet_storage(push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **_more: object) -> None:
        raise ConnectionError("reset")

    monkeypatch.setattr(sys.modules["huggingface_hub.constants"], "HF_HUB_DISABLE_XET", False)
    monkeypatch.setattr(sys.modules["huggingface_hub"].HfApi, "dataset_info", fail)
    ran = push()
    assert (ran.code, "does not answer (ConnectionError: reset): see HF_ENDPOINT" in ran.err) == (1, True)
    assert "xet" not in ran.err


@pytest.mark.parametrize("endpoint", ["ftp://hub", "hub.example", "http://[::bad", "http://h:99999999", ""])
def test_an_endpoint_that_is_none_is_said(push: Push, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setattr(sys.modules["huggingface_hub.constants"], "ENDPOINT", endpoint)
    ran = push()
    assert (ran.code, "which is no address of a hub" in ran.err) == (Exit.USAGE, True)


def test_the_user_of_an_endpoint_is_not_printed(hub: PushHub, push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = hub.url.replace("://", "://me:pass@")
    monkeypatch.setattr(sys.modules["huggingface_hub.constants"], "ENDPOINT", endpoint)
    ran = push()
    assert "pass" not in ran.out + ran.err


@pytest.mark.parametrize("token", ["", "  ", "hf_\u20ac", "hf_a b", None])
def test_without_a_token_nothing_is_asked(
    hub: PushHub, push: Push, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    monkeypatch.delenv("HF_TOKEN") if token is None else monkeypatch.setenv("HF_TOKEN", token)
    ran = push()
    assert ran.code == Exit.REFUSED
    assert "set HF_TOKEN to one that may write, or run `hf auth login`." in ran.err
    assert not (token or "").strip() or token.strip() not in ran.err
    assert not hub.seen


def test_the_login_of_the_client_is_used(
    hub: PushHub, push: Push, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text(TOKEN + "\n")
    assert push().code == Exit.OK


def test_another_token_is_refused(hub: PushHub, push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody")
    ran = push()
    assert (ran.code, "does not accept the token" in ran.err) == (Exit.REFUSED, True)
    assert "hf_of_somebody" not in ran.err


def test_offline_is_refused(hub: PushHub, push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["huggingface_hub.constants"], "HF_HUB_OFFLINE", True)
    ran = push()
    assert (ran.code, "HF_HUB_OFFLINE is set" in ran.err) == (Exit.REFUSED, True)
    assert not hub.seen


def test_only_a_folder_is_pushed(hub: PushHub, push: Push, tmp_path: Path) -> None:
    ran = push("--format", "messages")
    assert (ran.code, "only a folder of parquet is pushed" in ran.err) == (Exit.USAGE, True)
    assert push(repo="a b/c").code == Exit.USAGE
    assert not hub.seen
    assert [path.name for path in tmp_path.iterdir()] == ["piped"]


@dataclass
class Started:
    """A push in a process of its own, as the command line starts it: its standard input stays open."""

    process: subprocess.Popen[bytes]
    folder: Path

    def end(self) -> Ran:
        code = self.process.wait(LIMIT_S)
        out, err = ((self.folder / name).read_text() for name in ("out", "err"))
        self.process.stdin.close() if self.process.stdin else None
        return checked(Ran(code, out, err)) if code != -signal.SIGKILL else Ran(code, out, err)


@pytest.fixture
def start(hub: PushHub, tmp_path: Path) -> Callable[..., Started]:
    pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: not installed")

    def begin(*words: str, **more: str) -> Started:
        environ = environment(hub, tmp_path) | more
        command = [sys.executable, "-m", "rwkv_data", *WRITE, "--to", str(tmp_path / "sky"), f"--push-to-hub={REPO}"]
        with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
            process = subprocess.Popen([*command, *words], stdin=subprocess.PIPE, stdout=out, stderr=err, env=environ)
        assert process.stdin is not None
        process.stdin.write(piped(ROWS))
        process.stdin.flush()
        return Started(process, tmp_path)

    return begin


def environment(hub: PushHub, folder: Path) -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "RWKVCTL_"))}
    return found | {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder / "hf"), "HF_TOKEN": TOKEN, "NO_PROXY": "127.0.0.1"}


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_the_address_is_said_before_files_are_sent(
    hub: PushHub, start: Callable[..., Started], tmp_path: Path, words: list[str]
) -> None:
    before = list[str]()
    hub.before["/preupload/"] = lambda: before.append((tmp_path / "err").read_text())
    ran = start(*words, HF_HUB_DISABLE_XET="1").end()
    assert ran.code == Exit.OK
    assert before == [f"pushing to {hub.url}/datasets/{REPO} (private)\n"]
    assert "pushing to" not in ran.out
    assert not words or json.loads(ran.out)["pushed"]["changed"]


LOAD = """
import json, sys
import datasets
found = datasets.load_dataset(sys.argv[1])
said = {name: [[turn["content"] for turn in row["messages"]] for row in rows] for name, rows in found.items()}
print(json.dumps(said))
"""


def run_datasets(hub: PushHub, folder: Path, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", code, *words]
    environ = environment(hub, folder) | {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("place", ["hub", "folder"])
def test_the_datasets_library_loads_what_was_pushed(
    hub: PushHub, start: Callable[..., Started], tmp_path: Path, place: str
) -> None:
    """Neither the lineage beside the shards nor a file that stays is taken for rows or a split."""
    assert start(HF_HUB_DISABLE_XET="1").end().code == Exit.OK
    repo = hub.repos[REPO]
    repo.commits.append(repo.files | {"test.csv": b"a\n1\n", "data/train.parquet": b"theirs"})
    done = run_datasets(hub, tmp_path, LOAD, REPO if place == "hub" else str(tmp_path / "sky"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"train": [[turn.text for turn in row.turns] for row in ROWS]}


LOADED = """
import json, sys
from datasets.data_files import DataFilesDict, get_data_patterns
found = []
for folder in sys.argv[1:]:
    files = DataFilesDict.from_patterns(get_data_patterns(folder), folder)
    found.append(sorted(path.removeprefix(folder + "/") for some in files.values() for path in some))
print(json.dumps(found))
"""
BESIDE = [
    "data/test-00000-of-00001.parquet", "data/train-00000-of-00001-0123abcd.parquet", "data/x-00000-of-00001.txt",
    "data/train-00000-of-00002.csv", "data/train-00000-of-00001.parquet.gz",
    "data/.x-00000-of-00001.csv", "data/more/test-00000-of-00001.parquet", "data/test-00000-of-00001", "data/test.csv",
    "test-00000-of-00001.parquet", "train.csv", "test/rows.jsonl", "a.parquet", "validation.arrow", "data/x-1-of-1.csv",
]  # fmt: skip


def test_files_are_refused_that_the_datasets_library_takes(hub: PushHub, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub", reason="needs huggingface_hub: not installed")
    ours = [FIRST, "README.md", "lineage.jsonl"]
    for number, name in enumerate(BESIDE):
        for path in (tmp_path / str(number) / each for each in (*ours, name)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    folders = [str(tmp_path / str(number)) for number in range(len(BESIDE))]
    done = run_datasets(hub, tmp_path, LOADED, *folders)
    assert done.returncode == 0, done.stderr
    taken = [[path for path in paths if path != FIRST] for paths in json.loads(done.stdout)]
    assert taken == [foreign_files([*ours, name]) for name in BESIDE]
    assert sum(map(len, taken)) == 5


def test_shards_go_to_the_xet_storage(hub: PushHub, start: Callable[..., Started], tmp_path: Path) -> None:
    hf_xet = pytest.importorskip("hf_xet", reason="needs hf_xet: not installed")
    assert start(HF_HUB_DISABLE_XET="1").end().code == Exit.OK
    shard = (tmp_path / "sky" / FIRST).read_bytes()
    hub.in_xet, hub.stored = dict(hub.stored), {}
    hub.repos.clear()
    hub.xet_storage = f"local://{tmp_path / 'xet'}"
    (tmp_path / "xet").mkdir()
    (tmp_path / "other").mkdir()
    assert start().end().code == Exit.OK
    assert hub.repos[REPO].files[FIRST] == shard
    assert len(hub.asked("objects/batch")) == 1
    with hf_xet.XetSession().new_upload_commit(endpoint=f"local://{tmp_path / 'other'}") as commit:
        known = commit.start_upload_bytes(shard)
    xorbs = {path.name for name in ("xet", "other") for path in (tmp_path / name).rglob("xorbs/default.*")}
    assert known.result().xet_info.hash
    assert len({name.removesuffix(".tagset") for name in xorbs}) == 1


def test_a_xet_storage_that_is_away_is_one_sentence(hub: PushHub, start: Callable[..., Started]) -> None:
    pytest.importorskip("hf_xet", reason="needs hf_xet: not installed")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        hub.xet_storage = f"http://127.0.0.1:{closed.getsockname()[1]}"
        ran = start(HF_XET_CLIENT_RETRY_MAX_ATTEMPTS="1", HF_XET_CLIENT_RETRY_BASE_DELAY="1ms").end()
    assert ran.code == Exit.FAILED
    assert f"The xet storage of {hub.url} does not take the files (ConnectionError: " in ran.err
    assert "or set HF_HUB_DISABLE_XET=1 to do without." in ran.err
    assert len(hub.repos[REPO].commits) == 1


def test_a_push_that_is_killed_is_repeated_by_the_same_command(
    hub: PushHub, start: Callable[..., Started], tmp_path: Path
) -> None:
    release = threading.Event()
    hub.before["/preupload/"] = lambda: release.wait(LIMIT_S)
    first = start(HF_HUB_DISABLE_XET="1")
    wait_for(lambda: hub.asked("/preupload/"), "files are announced")
    first.process.kill()
    first.end()
    hub.before.clear()
    release.set()
    assert len(hub.repos[REPO].commits) == 1
    ran = start(HF_HUB_DISABLE_XET="1").end()
    assert (ran.code, "kept" in ran.out) == (Exit.OK, True), ran.err
    assert hub.repos[REPO].files[FIRST] == (tmp_path / "sky" / FIRST).read_bytes()


def test_nothing_is_pushed_once_who_sent_the_rows_is_gone(hub: PushHub, start: Callable[..., Started]) -> None:
    release = threading.Event()
    hub.before["/preupload/"] = lambda: release.wait(LIMIT_S)
    first = start(HF_HUB_DISABLE_XET="1")
    wait_for(lambda: hub.asked("/preupload/"), "files are announced")
    assert first.process.stdin is not None
    first.process.stdin.close()
    assert first.process.wait(LIMIT_S) == Exit.CLOSED_PIPE
    release.set()
    assert len(hub.repos[REPO].commits) == 1
