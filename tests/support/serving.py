"""A server on 127.0.0.1 that answers JSON by a function, for as long as a block runs."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """A reply on its way. `half`: its last part is lost; `hang`: it does not come."""

    status: int
    body: dict[str, Any] | bytes
    headers: dict[str, str] = field(default_factory=dict)
    half: bool = False
    hang: bool = False


def said(text: str, **more: object) -> Answer:
    """What a chat says, with `more` beside its choices."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return Answer(200, {"choices": [choice], **more})


@contextmanager
def serving(answer: Callable[[str, dict[str, Any], dict[str, str]], Answer]) -> Iterator[str]:
    """The address at which a function of path, body, and headers (named in small letters) answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            self._send(b"{}")

        def do_POST(self) -> None:
            self._send(self.rfile.read(int(self.headers["Content-Length"])))

        def _send(self, raw: bytes) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            told = answer(self.path, json.loads(raw), headers)
            if told.hang:
                time.sleep(3)
            content = told.body if isinstance(told.body, bytes) else json.dumps(told.body).encode()
            content = content[: len(content) // 2] if told.half else content
            self.send_response(told.status)
            for name, value in {**told.headers, "Content-Type": "application/json"}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(ConnectionError):
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
