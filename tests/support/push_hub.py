"""A Hugging Face hub on loopback that datasets can be pushed to and loaded from, by the hub's own libraries.

It is strict: a request that a hub does not know, a token that may not write, a commit on another parent, a file whose
content never came and a card whose head is no YAML are refused, each as the hub does it.
"""

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_test_4711_secret"
AT_FIRST = {".gitattributes": b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"}
"""What is in a repository that the hub creates."""


@dataclass
class Repo:
    """A dataset repository: `commits` has the files after each, by path."""

    private: bool
    commits: list[dict[str, bytes]] = field(default_factory=lambda: [dict(AT_FIRST)])
    messages: list[str] = field(default_factory=lambda: ["initial commit"])

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[-1]

    def head(self) -> str:
        return hashlib.sha1(repr([sorted(one.items()) for one in self.commits]).encode()).hexdigest()


@dataclass
class Refusal:
    """An answer instead of the usual one, to requests whose line has the pattern in it."""

    pattern: str
    status: int
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1 << 30


class PushHub(ThreadingHTTPServer):
    """A hub with one account, whose token may write to everything."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), PushHandler)
        self.lock = threading.Lock()
        self.repos: dict[str, Repo] = {}
        self.stored: dict[str, bytes] = {}
        """Content of large files, by sha256."""
        self.large = ".parquet"
        """The ending of large files."""
        self.xet_storage = ""
        """The address of the xet storage, whose files a commit may name as well: `in_xet`."""
        self.in_xet: dict[str, bytes] = {}
        self.refusals: list[Refusal] = []
        self.before: dict[str, Callable[[], object]] = {}
        """What is done before a request is answered, by a part of its line."""
        self.seen: list[str] = []
        self.strange: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def asked(self, *parts: str) -> list[str]:
        """The lines of the requests that have all of these parts."""
        return [line for line in self.seen if all(part in line for part in parts)]

    def refusal(self, line: str) -> Refusal | None:
        with self.lock:
            found = next((one for one in self.refusals if one.times and re.search(one.pattern, line)), None)
            if found:
                found.times -= 1
            return found

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that has disconnected."""


class PushHandler(BaseHTTPRequestHandler):
    """The requests of `huggingface_hub` and `datasets`."""

    server: PushHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        line = f"{self.command} {path}"
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append(line)
        for part, act in list(self.server.before.items()):
            if part in line:
                act()
        if refused := self.server.refusal(line):
            echo = (self.headers.get("Authorization") or "").encode()
            return self.send(refused.status, refused.body.replace(b"AUTHORIZATION", echo), refused.headers)
        routes = ROUTES.get(self.command, ())
        for pattern, answer in routes:
            if match := re.fullmatch(pattern, path):
                return answer(self, body, *match.groups())
        self.server.strange.append(line)
        return self.missing("EntryNotFound")

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - names of the base class

    def log_message(self, *_: object) -> None:
        pass

    @property
    def writes(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def repo(self, name: str) -> Repo | None:
        """A repository that the client may see; otherwise it is told what the hub tells."""
        found = self.server.repos.get(name)
        if self.headers.get("Authorization") and not self.writes:
            said = "Invalid credentials in Authorization header"
            self.send(401, json.dumps({"error": said}).encode(), {"X-Error-Message": said})
            return None
        if found is None or (found.private and not self.writes):
            self.missing("RepoNotFound", 404 if self.writes else 401)
            return None
        return found

    def about(self, _body: bytes, name: str, revision: str | None) -> None:
        repo = self.repo(name)
        if repo is None:
            return None
        if revision not in {None, "main", repo.head()}:
            return self.missing("RevisionNotFound")
        facts = {"id": name, "_id": "0" * 24, "sha": repo.head(), "private": repo.private, "gated": False}
        facts |= dict.fromkeys(("lastModified", "createdAt"), "2026-01-01T00:00:00.000Z")
        facts |= {"disabled": False, "tags": [], "downloads": 0, "likes": 0}
        return self.json(facts | {"siblings": [{"rfilename": path} for path in repo.files]})

    def create(self, body: bytes) -> None:
        asked = json.loads(body)
        assert set(asked) == {"name", "organization", "type", "visibility"}, asked
        assert asked["type"] == "dataset"
        assert asked["visibility"] in {"private", "public"}
        name = f"{asked['organization']}/{asked['name']}"
        if not self.writes:
            return self.send(401, b'{"error": "Invalid username or password."}', {})
        told = {"url": f"{self.server.url}/datasets/{name}", "name": name, "id": "0" * 24}
        if name in self.server.repos:
            return self.json(told | {"error": "You already created this dataset repo"}, 409)
        self.server.repos[name] = Repo(private=asked["visibility"] == "private")
        return self.json(told)

    def validate(self, body: bytes) -> None:
        yaml: Any = import_module("yaml")  # comes with the library of the hub
        asked = json.loads(body)
        head = re.match(r"---\n(.*?)\n---\n", asked["content"], re.DOTALL)
        try:
            values = yaml.safe_load(head[1] if head else "")
        except yaml.YAMLError as error:
            values = str(error)
        if not isinstance(values, dict):
            return self.json({"errors": [{"message": f"no YAML: {values}"}], "warnings": []}, 400)
        return self.json({"errors": [], "warnings": [{"message": "empty or missing license"}]})

    def preupload(self, body: bytes, name: str) -> None:
        repo = self.repo(name)
        if repo is None:
            return None
        asked = json.loads(body)
        ignored = asked.get("gitIgnore", repo.files.get(".gitignore", b"").decode()).split()
        told = []
        for one in asked["files"]:
            path, large = one["path"], one["path"].endswith(self.server.large)
            there = repo.files.get(path)
            oid = None if there is None else hashlib.sha256(there).hexdigest() if large else git_sha1(there)
            mode, ignore = "lfs" if large else "regular", any(path.startswith(part) for part in ignored)
            told.append({"path": path, "uploadMode": mode, "shouldIgnore": ignore, "oid": oid})
        return self.json({"files": told})

    def batch(self, body: bytes, _name: str) -> None:
        if not self.writes:
            return self.send(401, b"{}", {})
        told = []
        for one in json.loads(body)["objects"]:
            needed = one["oid"] not in self.server.stored
            place = {"href": f"{self.server.url}/storage/{one['oid']}"}
            told.append(one | ({"actions": {"upload": place}} if needed else {}))
        return self.json({"transfer": "basic", "objects": told})

    def store(self, body: bytes, oid: str) -> None:
        assert self.headers.get("Authorization") is None, "the storage is not the hub: it gets no token"
        if hashlib.sha256(body).hexdigest() != oid:
            return self.send(400, b"", {})
        self.server.stored[oid] = body
        return self.send(200, b"", {})

    def xet_token(self, _body: bytes, _name: str) -> None:
        told = {"casUrl": self.server.xet_storage, "accessToken": "xet", "exp": 1 << 40}
        self.json(told) if self.writes else self.send(401, b"{}", {})

    def commit(self, body: bytes, name: str) -> None:
        repo = self.repo(name)
        if repo is None:
            return None
        if not self.writes:
            return self.send(403, b'{"error": "You need write access"}', {})
        lines = [json.loads(line) for line in body.splitlines()]
        with self.server.lock:
            head = lines.pop(0)["value"]
            if head.get("parentCommit", repo.head()) != repo.head():
                return self.json({"error": "A commit has happened since. Please refresh and try again."}, 412)
            files = dict(repo.files)
            for line in lines:
                if wrong := self.applied(line["key"], line["value"], files):
                    return self.json({"error": wrong}, 400)
            repo.commits.append(files)
            repo.messages.append(head["summary"])
            made = repo.head()
        url = f"{self.server.url}/datasets/{name}/commit/{made}"
        return self.json({"success": True, "commitOid": made, "commitUrl": url})

    def applied(self, key: str, value: dict[str, Any], files: dict[str, bytes]) -> str:
        """Do one line of a commit to the files; what is wrong with it."""
        path = value["path"]
        if key == "deletedFile":
            return "" if files.pop(path, None) is not None else "A file with this name doesn't exist"
        if key == "file":
            files[path] = base64.b64decode(value["content"])
            return ""
        if key == "lfsFile":
            content = (self.server.stored | self.server.in_xet).get(value["oid"])
            if content is None or len(content) != value["size"]:
                return f"{path}: no such object"
            files[path] = content
            return ""
        return f"unknown line {key}"

    def tree(self, _body: bytes, name: str, revision: str, folder: str | None) -> None:
        repo = self.repo(name)
        if repo is None:
            return None
        if revision not in {"main", repo.head()}:
            return self.missing("RevisionNotFound")
        entries, prefix = {}, f"{folder}/" if folder else ""
        for path, content in repo.files.items():
            if path.startswith(prefix):
                child = prefix + path[len(prefix) :].split("/")[0]
                if child == path or "recursive=true" in self.path.lower():
                    entries[path] = entry(path, content)
                else:
                    entries[child] = {"type": "directory", "oid": "0" * 40, "size": 0, "path": child}
        return self.json(list(entries.values())) if entries else self.missing("EntryNotFound")

    def paths_info(self, body: bytes, name: str, _revision: str) -> None:
        repo = self.repo(name)
        if repo is None:
            return None
        asked = json.loads(body)["paths"]
        return self.json([entry(path, content) for path, content in repo.files.items() if path in asked])

    def resolve(self, _body: bytes, name: str, _revision: str, path: str) -> None:
        repo = self.repo(name)
        if repo is None:
            return None
        content = repo.files.get(path)
        if content is None:
            return self.missing("EntryNotFound", commit=repo.head())
        digest = f'"{hashlib.sha256(content).hexdigest()}"'
        return self.send(200, content, {"X-Repo-Commit": repo.head(), "ETag": digest})

    def json(self, value: object, status: int = 200) -> None:
        self.send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def missing(self, code: str, status: int = 404, commit: str = "") -> None:
        self.send(status, json.dumps({"error": code}).encode(), {"X-Error-Code": code, "X-Repo-Commit": commit})

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


NAME = r"([^/]+/[^/]+?)"
ROUTES: dict[str, tuple[tuple[str, Callable[..., None]], ...]] = {
    "GET": (
        (rf"/api/datasets/{NAME}/tree/([^/]+)(?:/(.+))?", PushHandler.tree),
        (rf"/api/datasets/{NAME}/xet-write-token/main", PushHandler.xet_token),
        (rf"/api/datasets/{NAME}(?:/revision/([^/]+))?", PushHandler.about),
        (rf"/datasets/{NAME}/resolve/([^/]+)/(.+)", PushHandler.resolve),
    ),
    "HEAD": ((rf"/datasets/{NAME}/resolve/([^/]+)/(.+)", PushHandler.resolve),),
    "PUT": ((r"/storage/([0-9a-f]{64})", PushHandler.store),),
    "POST": (
        (r"/api/repos/create", PushHandler.create),
        (r"/api/validate-yaml", PushHandler.validate),
        (rf"/api/datasets/{NAME}/preupload/main", PushHandler.preupload),
        (rf"/api/datasets/{NAME}/paths-info/([^/]+)", PushHandler.paths_info),
        (rf"/datasets/{NAME}\.git/info/lfs/objects/batch", PushHandler.batch),
        (rf"/api/datasets/{NAME}/commit/main", PushHandler.commit),
    ),
}


def entry(path: str, content: bytes) -> dict[str, object]:
    """A file as the hub lists it."""
    return {"type": "file", "oid": git_sha1(content), "size": len(content), "path": path}


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@contextlib.contextmanager
def push_hub() -> Iterator[PushHub]:
    """Run a hub; in the end nothing may have been asked that it does not know."""
    server = PushHub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.before.clear()
        server.shutdown()
        server.server_close()
        thread.join()
    assert not server.strange, server.strange
