"""A Hugging Face hub on loopback, and a process that uses it."""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest


class Hub(ThreadingHTTPServer):
    """Serves ROOT/datasets/OWNER/NAME/... as the hub does; `seen` lists the requests."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.seen: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def files(self, repo: str) -> dict[str, bytes]:
        """The files of a repository by path; empty if there is none."""
        folder = self.root / "datasets" / repo
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in found}

    def commit(self, repo: str) -> str:
        return hashlib.sha1(repr(self.files(repo)).encode()).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """The endpoints that `datasets` and `huggingface_hub` ask for."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._missing("EntryNotFound")

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        self.server.seen.append(f"{self.command} {path}")
        if match := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._resolve(match[1], match[3])
        elif match := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/revision/([^/]+))?", path):
            self._repository(match[1], match[2])
        elif match := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/tree/([^/]+)(?:/(.*))?", path):
            self._tree(match[1], match[3] or "", parse_qs(url.query).get("recursive") == ["true"])
        else:
            self._missing("EntryNotFound")

    def _repository(self, repo: str, revision: str | None) -> None:
        files, commit = self.server.files(repo), self.server.commit(repo)
        if not files:
            return self._missing("RepoNotFound")
        if revision not in {None, "main", commit}:
            return self._missing("RevisionNotFound")
        facts = {"id": repo, "_id": "0" * 24, "sha": commit, "private": False, "gated": False, "disabled": False}
        facts |= dict.fromkeys(("lastModified", "createdAt"), "2026-01-01T00:00:00.000Z")
        facts |= {"tags": [], "downloads": 0, "likes": 0, "siblings": [{"rfilename": path} for path in files]}
        self._json(facts)
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

    def _resolve(self, repo: str, path: str) -> None:
        files = self.server.files(repo)
        if path not in files:
            return self._missing("EntryNotFound" if files else "RepoNotFound", self.server.commit(repo))
        body = files[path]
        digest = f'"{hashlib.sha256(body).hexdigest()}"'
        headers = {
            "X-Repo-Commit": self.server.commit(repo),
            "ETag": digest,
            "X-Linked-Etag": digest,
            "X-Linked-Size": str(len(body)),
            "Accept-Ranges": "bytes",
        }
        self._send(200, body, headers)
        return None

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _missing(self, code: str, commit: str = "") -> None:
        self._send(404, json.dumps({"error": code}).encode(), {"X-Error-Code": code, "X-Repo-Commit": commit})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def hub(tmp_path):
    """A running hub with an empty root."""
    server = Hub(tmp_path / "hub")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def data_command(hub, tmp_path):
    """Run `python -m rwkv_data ...` against that hub, with a fresh cache."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "RWKVCTL_"))}
        environment |= {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_TOKEN": "hf_test",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1",
        }
        command = [sys.executable, "-m", "rwkv_data", *arguments, "--home", str(tmp_path / "home")]
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200, check=False)

    return run
