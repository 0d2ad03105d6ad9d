"""Servers on loopback (a Hugging Face hub, a plain web server with faults) and processes that use them."""

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from rwkv_data.definition.benchmark import HubSource
from rwkv_data.sandbox.isolation_check import available

CONVERTED = "refs/convert/parquet"


@pytest.fixture(scope="session")
def needs_sandbox() -> None:
    """Asked when the first test runs that needs one: in the head of a module, every test process would start several
    when it collects."""
    if trouble := available():
        pytest.skip(f"needs a sandbox: {trouble}")


class Serving(ThreadingHTTPServer):
    """A server that lists what it was asked for. `cut_at`: the next long enough body breaks off there, once."""

    daemon_threads = True

    def __init__(self, root: Path, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.root = root
        self.seen: list[str] = []
        self.cut_at = 0

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that has disconnected."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Hub(Serving):
    """Serves ROOT/datasets/OWNER/NAME/... as the hub does, and ROOT/converted/OWNER/NAME/... as its parquet copy.
    `gated` needs another token than the tests' one; `moved` says which name a set has now."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, HubHandler)
        self.gated: set[str] = set()
        self.moved: dict[str, str] = {}

    def files(self, repo: str, branch: str = "datasets") -> dict[str, bytes]:
        """Return the files of a repository by path; empty if there is none."""
        folder = self.root / branch / repo
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in found}

    def commit(self, repo: str, branch: str = "datasets") -> str:
        return hashlib.sha1(repr(self.files(repo, branch)).encode()).hexdigest()

    def branch(self, repo: str, revision: str | None) -> str:
        """Return the tree of a revision; empty if there is none."""
        if revision in {None, "main", self.commit(repo)}:
            return "datasets"
        there = self.files(repo, "converted") and revision in {CONVERTED, self.commit(repo, "converted")}
        return "converted" if there else ""


class Answering(BaseHTTPRequestHandler):
    """Answers GET and HEAD, with ranges."""

    server: Serving
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.seen.append(f"{self.command} {unquote(self.path)} {self.headers.get('Range', '')}".rstrip())
        self.answer()

    def do_HEAD(self) -> None:
        self.do_GET()

    def answer(self) -> None:
        raise NotImplementedError

    def log_message(self, *_: object) -> None:
        pass

    def content(self, body: bytes, headers: dict[str, str]) -> None:
        """A file, or the part of it that was asked for, or as much of that as `cut_at` lets through."""
        part = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if part is None:
            return self.send(200, body, headers)
        first, last = int(part[1]), int(part[2]) if part[2] else len(body) - 1
        if first >= len(body):
            return self.send(416, b"", headers | {"Content-Range": f"bytes */{len(body)}"})
        return self.send(206, body[first : last + 1], headers | {"Content-Range": f"bytes {first}-{last}/{len(body)}"})

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = self.server.cut_at if self.server.cut_at < len(body) else 0
        if cut:
            self.server.cut_at = 0
        with contextlib.suppress(OSError):
            self.wfile.write(body[:cut] if cut else body)
            if cut:
                self.wfile.flush()
                self.close_connection = True
                self.connection.shutdown(2)


class HubHandler(Answering):
    """The endpoints that `huggingface_hub` asks for."""

    server: Hub

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._missing("EntryNotFound")

    def answer(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        if match := re.fullmatch(r"(/api)?/datasets/([^/]+/[^/]+)(.*)", path):
            repo = match[2]
            if new := self.server.moved.get(repo):
                return self.send(307, b"", {"Location": self.path.replace(repo, new, 1)})
            if match[1]:
                return self._about(repo, match[3], parse_qs(url.query).get("recursive") == ["true"])
            if where := re.fullmatch(r"/resolve/([^/]+)/(.+)", match[3]):
                return self._resolve(repo, where[1], where[2])
        return self._missing("EntryNotFound")

    def _about(self, repo: str, rest: str, recursive: bool) -> None:
        if tree := re.fullmatch(r"/tree/([^/]+)(?:/(.*))?", rest):
            return self._tree(repo, tree[2] or "", recursive)
        return self._repository(repo, rest.removeprefix("/revision/") or None)

    def _repository(self, repo: str, revision: str | None) -> None:
        branch = self.server.branch(repo, revision)
        files = self.server.files(repo, branch or "datasets")
        if not files:
            return self._missing("RepoNotFound", status=401)
        if not branch:
            return self._missing("RevisionNotFound")
        facts = {"id": repo, "_id": "0" * 24, "sha": self.server.commit(repo, branch), "private": False, "gated": False}
        facts |= dict.fromkeys(("lastModified", "createdAt"), "2026-01-01T00:00:00.000Z")
        facts |= {"disabled": False, "tags": [], "downloads": 0, "likes": 0}
        self._json(facts | {"siblings": [{"rfilename": path} for path in files]})
        return None

    def _tree(self, repo: str, folder: str, recursive: bool) -> None:
        prefix = f"{folder}/" if folder else ""
        inside = {path: body for path, body in self.server.files(repo).items() if path.startswith(prefix)}
        if not inside:
            return self._missing("EntryNotFound")
        entries = {}
        for path, body in inside.items():
            child = prefix + path[len(prefix) :].split("/")[0]
            if recursive or child == path:
                entries[path] = {"type": "file", "oid": hashlib.sha1(body).hexdigest(), "size": len(body), "path": path}
            else:
                entries[child] = {"type": "directory", "oid": "0" * 40, "size": 0, "path": child}
        self._json(list(entries.values()))
        return None

    def _resolve(self, repo: str, revision: str, path: str) -> None:
        branch = self.server.branch(repo, revision)
        files, commit = self.server.files(repo, branch or "datasets"), self.server.commit(repo, branch or "datasets")
        if repo in self.server.gated and path != "README.md":
            return self._missing("GatedRepo", commit, 403)
        if path not in files:
            return self._missing("EntryNotFound" if files else "RepoNotFound", commit)
        digest = f'"{hashlib.sha256(files[path]).hexdigest()}"'
        headers = {
            "X-Repo-Commit": commit,
            "ETag": digest,
            "X-Linked-Etag": digest,
            "X-Linked-Size": str(len(files[path])),
            "Accept-Ranges": "bytes",
        }
        self.content(files[path], headers)
        return None

    def _json(self, value: object) -> None:
        self.send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _missing(self, code: str, commit: str = "", status: int = 404) -> None:
        self.send(status, json.dumps({"error": code}).encode(), {"X-Error-Code": code, "X-Repo-Commit": commit})


class Web(Serving):
    """Serves files from below ROOT. `redirects` say where a path goes; `stubborn` servers know no ranges."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, WebHandler)
        self.redirects: dict[str, str] = {}
        self.stubborn = False


class WebHandler(Answering):
    """Request handler of `Web`: redirects, whole files and byte ranges."""

    server: Web

    def answer(self) -> None:
        if where := self.server.redirects.get(self.path):
            return self.send(302, b"", {"Location": where})
        path = self.server.root / unquote(self.path).lstrip("/")
        if not path.is_file():
            return self.send(404, b"nothing", {})
        return self.send(200, path.read_bytes(), {}) if self.server.stubborn else self.content(path.read_bytes(), {})


@contextlib.contextmanager
def running(server):
    """Run a server in a thread of its own."""
    server.root.mkdir(exist_ok=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def hub(tmp_path):
    """A running hub with an empty root."""
    with running(Hub(tmp_path / "hub")) as server:
        yield server


@pytest.fixture
def web(tmp_path):
    """A running web server with an empty root."""
    with running(Web(tmp_path / "web")) as server:
        yield server


@pytest.fixture
def hub_environment(hub, tmp_path) -> dict[str, str]:
    """Return the environment of a process that uses that hub, with a fresh cache."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "RWKVCTL_"))}
    return environment | {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_TOKEN": "hf_test",
        "HF_HUB_DISABLE_XET": "1",
        "NO_PROXY": "127.0.0.1",
    }


@pytest.fixture
def data_command(hub_environment, tmp_path):
    """Run `python -m rwkv_data ...` against that hub, with a fresh cache."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "rwkv_data", *arguments, "--home", str(tmp_path / "home")]
        return subprocess.run(
            command, capture_output=True, text=True, env=hub_environment | environment, timeout=200, check=False
        )

    return run


READ = """
import json, sys
from rwkv_data.benchmark import HubSource
from rwkv_data.definition.errors import PrepareError
from rwkv_data.prepare.sources import hub

def read(given):
    told = []
    try:
        source = HubSource(**{name: tuple(v) if isinstance(v, list) else v for name, v in given.items()})
        raw = hub.open_rows(source, lambda now: told.append([now.name, now.done, now.total]))
        rows = list(raw.placed)
    except PrepareError as error:
        return str(error)
    heavy = sorted({"datasets", "pandas", "torch"} & set(sys.modules))
    return {"source": raw.source, "revision": raw.revision, "rows": [row for _, row in rows],
            "places": [place for place, _ in rows], "told": told, "heavy": heavy}

print(json.dumps([read(given) for given in json.loads(sys.argv[1])]))
"""


@pytest.fixture
def hub_sets(hub_environment):
    """Read HubSources in a process of their own, as its client looks at the environment once: what came of each, or
    why not."""

    def run(*sources: HubSource, **environment: str) -> list[Any]:
        command = [sys.executable, "-c", READ, json.dumps([asdict(source) for source in sources])]
        done = subprocess.run(
            command, capture_output=True, text=True, env=hub_environment | environment, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def hub_rows(hub_sets):
    """Read one HubSource as `hub_sets` does, and return what came of it."""
    return lambda source, **environment: hub_sets(source, **environment)[0]
