"""A Hugging Face hub on loopback that can misbehave, and a process that downloads from it."""

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest
from waiting import LIMIT_S

from rwkv_weights.__main__ import main

PIECE = 1 << 20


class Hub(ThreadingHTTPServer):
    """Serves ROOT/OWNER/NAME/... as the hub serves models. `seen` lists the requests with their Range."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root, self.lock = root, threading.Lock()
        self.seen: list[tuple[str, str]] = []
        self.cuts: dict[str, list[int]] = defaultdict(list)
        """Bytes of a body after which the connection is cut, for the next requests of a file."""
        self.spoiled: dict[str, int] = defaultdict(int)
        """How often a file is still sent with a wrong byte."""
        self.refusals: list[tuple[str, int, dict[str, str], int]] = []
        """(pattern of the path, status, headers, how often)."""
        self.tokens: list[tuple[str, str | None]] = []
        """Of every request: its line and its token."""
        self.ranges = True
        self.holds: dict[str, int] = {}
        """Bytes of a body after which nothing comes until the file is no longer named here."""
        self.more: dict[str, bytes] = {}
        """What is sent after a file's last byte, as if it belonged to it."""
        self.moved: dict[str, str] = {}
        """Where a file is sent from instead."""
        self.xet: dict[str, str] = {}
        """The xet hash of a file's bytes, by its path."""
        self.storage = ""
        """The address of the xet storage."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put_xet(self, repo: str, path: str, body: bytes, storage: Path) -> None:
        """Publish a file that lies in a xet storage, too: hf_xet keeps one in a folder."""
        hf_xet = pytest.importorskip("hf_xet", reason="needs hf_xet: not installed")
        self.put(repo, path, body)
        storage.mkdir(exist_ok=True)
        self.storage = f"local://{storage}"
        with hf_xet.XetSession().new_upload_commit(endpoint=self.storage) as commit:
            sent = commit.start_upload_bytes(body)
        self.xet[path] = sent.result().xet_info.hash

    def put(self, repo: str, path: str, body: bytes) -> str:
        """Publish a file; its sha256."""
        place = self.root / repo / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(body)
        return hashlib.sha256(body).hexdigest()

    def files(self, repo: str) -> dict[str, bytes]:
        folder = self.root / repo
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in found}

    def commit(self, repo: str) -> str:
        return hashlib.sha1(repr(sorted(self.files(repo))).encode()).hexdigest()

    def bodies(self, name: str) -> list[str]:
        """The Range of every request for a file's bytes."""
        return [
            asked for line, asked in self.seen if line.startswith("GET") and line.endswith(name) and "resolve" in line
        ]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no news."""

    def refusal(self, path: str) -> tuple[int, dict[str, str]] | None:
        with self.lock:
            for number, (pattern, status, headers, count) in enumerate(self.refusals):
                if count and re.search(pattern, path):
                    self.refusals[number] = (pattern, status, headers, count - 1)
                    return status, headers
        return None


class Handler(BaseHTTPRequestHandler):
    """The endpoints that listing and fetching ask for."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.seen.append((f"{self.command} {path}", self.headers.get("Range") or ""))
        self.server.tokens.append((f"{self.command} {path}", self.headers.get("Authorization")))
        if refused := self.server.refusal(path):
            return self._send(refused[0], b"{}", refused[1])
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self._resolve(match[1], match[3])
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", path):
            return self._repository(match[1], match[2])
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", path):
            return self._tree(match[1])
        if re.fullmatch(r"/api/models/([^/]+/[^/]+)/xet-read-token/(.+)", path):
            return self._json({"casUrl": self.server.storage, "accessToken": "xet", "exp": int(time.time()) + 3600})
        return self._missing("EntryNotFound")

    def _repository(self, repo: str, revision: str | None) -> None:
        files, commit = self.server.files(repo), self.server.commit(repo)
        if not files:
            return self._missing("RepoNotFound")
        if revision not in {None, "main", commit}:
            return self._missing("RevisionNotFound")
        facts = {"id": repo, "modelId": repo, "_id": "0" * 24, "sha": commit, "private": False, "gated": False}
        facts |= dict.fromkeys(("lastModified", "createdAt"), "2026-01-01T00:00:00.000Z")
        facts |= {"disabled": False, "tags": [], "downloads": 0, "likes": 0}
        return self._json(facts | {"siblings": [{"rfilename": path} for path in files]})

    def _tree(self, repo: str) -> None:
        entries = []
        for path, body in self.server.files(repo).items():
            sha1 = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()
            entry = {"type": "file", "oid": sha1, "size": len(body), "path": path}
            if path.endswith((".pth", ".safetensors")):
                entry["lfs"] = {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 134}
            if path in self.server.xet:
                entry["xetHash"] = self.server.xet[path]
            entries.append(entry)
        self._json(entries)

    def _resolve(self, repo: str, path: str) -> None:
        files = self.server.files(repo)
        if path not in files:
            return self._missing("EntryNotFound" if files else "RepoNotFound", self.server.commit(repo))
        if path in self.server.moved:
            return self._send(302, b"", {"Location": self.server.moved[path]})
        body, status, headers = files[path], 200, {"X-Repo-Commit": self.server.commit(repo), "Accept-Ranges": "bytes"}
        headers |= {"ETag": f'"{hashlib.sha256(body).hexdigest()}"'}
        body += self.server.more.get(path, b"")
        with self.server.lock:
            if self.server.spoiled[path]:
                self.server.spoiled[path] -= 1
                body = body[:-1] + bytes([body[-1] ^ 1])
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked and self.server.ranges:
            first, size = int(asked[1]), len(body)
            if first >= size:
                return self._send(416, b"", {"Content-Range": f"bytes */{size}"})
            headers["Content-Range"] = f"bytes {first}-{size - 1}/{size}"
            body, status = body[first:], 206
        if self.command == "HEAD":
            return self._head(status, headers, len(body))
        return self._body(status, body, headers, path)

    def _body(self, status: int, body: bytes, headers: dict[str, str], path: str) -> None:
        with self.server.lock:
            cut = self.server.cuts[path].pop(0) if self.server.cuts[path] else len(body)
        self._head(status, headers, len(body))
        held = min(self.server.holds.get(path, cut), cut)
        for start in range(0, held, PIECE):
            self.wfile.write(body[start : min(start + PIECE, held)])
        self.wfile.flush()
        while held < cut and path in self.server.holds:
            time.sleep(0.01)
        self.wfile.write(body[held:cut])
        if cut < len(body):
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _missing(self, code: str, commit: str = "") -> None:
        self._send(404, json.dumps({"error": code}).encode(), {"X-Error-Code": code, "X-Repo-Commit": commit})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self._head(status, headers, len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: int, headers: dict[str, str], length: int) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(length)} | headers).items():
            self.send_header(name, value)
        self.end_headers()


@pytest.fixture
def hub(tmp_path):
    """A running hub with an empty root."""
    with running(tmp_path / "hub") as server:
        yield server


@pytest.fixture
def elsewhere(tmp_path):
    """Another server, as the hub redirects to one."""
    with running(tmp_path / "elsewhere") as server:
        yield server


@contextlib.contextmanager
def running(root: Path):
    server = Hub(root)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.holds.clear()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def home(tmp_path):
    """The home that the verbs work in."""
    (tmp_path / "home" / "weights").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def environment(hub, tmp_path):
    """Variables of a process that asks that hub, with a fresh cache."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "RWKVCTL_"))}
    return found | {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_TOKEN": "hf_test",
        "NO_PROXY": "127.0.0.1",
    }


@pytest.fixture
def start(environment, home):
    """Start `python -m rwkv_weights ...`."""

    def begin(*words: str, **more: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "rwkv_weights", *words, "--home", str(home)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, text=True, env=environment | more, **pipes)

    return begin


@dataclass
class Ran:
    """What a run left behind. `waits`: the seconds that it wanted to wait, one after the other."""

    returncode: int
    stdout: str
    stderr: str
    waits: list[float] = field(default_factory=list)


@pytest.fixture
def weights_process(start):
    """Run it to its end in a process of its own, for what is read when the hub's library is imported."""

    def run(*words: str, **more: str) -> Ran:
        process = start(*words, **more)
        out, err = process.communicate(timeout=LIMIT_S)
        assert "Traceback" not in err, err
        return Ran(process.returncode, out, err)

    return run


@pytest.fixture
def weights(request, home, monkeypatch, capsys):
    """Run it to its end in this process, without its waits. A hub is known to it where the test has one."""
    from rwkv_weights.hub import transfer
    from rwkv_weights.verbs import download

    if "hub" in request.fixturenames:
        constants = pytest.importorskip("huggingface_hub.constants", reason="needs huggingface_hub: not installed")
        url = request.getfixturevalue("hub").url
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        )
        for name in (name for name in list(os.environ) if name.startswith(("HF_", "RWKVCTL_"))):
            monkeypatch.delenv(name)
        monkeypatch.setenv("HF_HOME", str(home.parent / "hf"))
        monkeypatch.setenv("HF_TOKEN", "hf_test")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    waits: list[float] = []
    for module in (download, transfer):
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=waits.append))
    if "hub" in request.fixturenames:
        for module in ("huggingface_hub.file_download", "huggingface_hub.utils._http"):
            monkeypatch.setattr(f"{module}.time", SimpleNamespace(sleep=waits.append))

    def run(*words: str) -> Ran:
        waits.clear()
        usual = signal.getsignal(signal.SIGTERM)
        try:
            code = main([*words, "--home", str(home)])
        except SystemExit as wrong:
            code = int(str(wrong.code))
        finally:
            signal.signal(signal.SIGTERM, usual)
        out, err = capsys.readouterr()
        return Ran(code, out, err, list(waits))

    return run
