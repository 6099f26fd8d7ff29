"""A dataset hub on this machine: the paths, headers and error codes by which huggingface_hub knows one.

Real clients talk to it over HTTP on 127.0.0.1. It stands for the real hub, which tests never reach.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from tests.support.serving import serving

SHA = "0123456789abcdef0123456789abcdef01234567"
REPO = "lamps/lamp_questions"

Files = Mapping[str, bytes]
Refusal = tuple[int, str, str]
"""Status, X-Error-Code, X-Error-Message."""


class _Hub(BaseHTTPRequestHandler):
    files: ClassVar[Files] = {}
    refusal: ClassVar[Refusal | None] = None
    asked: ClassVar[list[str]]

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str, message: str) -> None:
        self._answer(status, b"", {"X-Error-Code": code, "X-Error-Message": message})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.asked.append(f"{self.command} {path}")
        tree, blob = f"/api/datasets/{REPO}/tree/{SHA}", f"/datasets/{REPO}/resolve/{SHA}/"
        if path.startswith(f"/api/datasets/{REPO}") and path.rstrip("/") == tree:
            rows = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in self.files.items()
            ]
            self._answer(200, json.dumps(rows).encode(), {"Content-Type": "application/json"})
        elif path.startswith(f"/api/datasets/{REPO}"):
            self._refuse(404, "RevisionNotFound", "Invalid rev id")
        elif path.startswith(blob):
            self._file(path.removeprefix(blob))
        else:
            self._refuse(404, "RepoNotFound", "Repository not found")

    def _file(self, name: str) -> None:
        if name not in self.files:
            return self._refuse(404, "EntryNotFound", "Entry not found")
        if self.refusal is not None and name != "README.md":
            return self._refuse(*self.refusal)
        data = self.files[name]
        etag = f'"{hashlib.sha1(data).hexdigest()}"'
        self._answer(200, data, {"ETag": etag, "X-Repo-Commit": SHA, "Accept-Ranges": "none"})
        return None


@contextmanager
def hub(files: Files, refusal: Refusal | None = None) -> Iterator[tuple[str, list[str]]]:
    """The address of a hub that holds one dataset at one commit, and the requests it gets."""
    asked: list[str] = []
    kind = type("Hub", (_Hub,), {"files": files, "refusal": refusal, "asked": asked})
    with serving(kind) as address:
        yield address, asked
