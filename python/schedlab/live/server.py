"""The live page's server: on loopback, and only for requests that have its token."""

import hmac
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

from schedlab.boundary.errors import InputError
from schedlab.boundary.files import read_bytes

PAGE = Path(__file__).with_name("page.html")
"""The page, built by ``make live`` and shipped in the wheel."""

_MISSING = (
    "the live page is not built: make live builds it, with Rust's target wasm32-unknown-unknown "
    "(rustup target add wasm32-unknown-unknown) or on Debian 12 with the compiler that it fetches"
)


class Server:
    """Serves the page until it is closed.

    Args:
        port: the port; 0 for any that is free.
        page: the page's file.
        recording: a file that the page reads as ``recording``.

    Raises:
        InputError: the page was not built, or the port cannot be taken.
    """

    def __init__(self, port: int = 0, page: Path = PAGE, *, recording: Path | None = None) -> None:
        if not page.is_file():
            raise InputError(_MISSING)
        self.token = secrets.token_urlsafe(16)
        self.recording = recording
        files = {self.token: ("text/html; charset=utf-8", page.read_bytes())}
        if recording is not None:
            content = ("application/octet-stream", read_bytes(recording, "recording"))
            files[f"{self.token}/recording"] = content

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(body=True)

            def do_HEAD(self) -> None:
                self._answer(body=False)

            def _answer(self, *, body: bool) -> None:
                host = (self.headers.get("Host") or "").rpartition(":")[0]
                # A page of another site may resolve its own name to this address.
                if host not in ("127.0.0.1", "localhost"):
                    self.send_error(HTTPStatus.FORBIDDEN)
                    return
                path = self.path.partition("?")[0].strip("/")
                found = [
                    one
                    for name, one in files.items()
                    if hmac.compare_digest(path.encode(), name.encode())
                ]
                if not found:
                    self.send_error(HTTPStatus.NOT_FOUND)
                    return
                kind, content = found[0]
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "no-store")
                self.send_header("Referrer-Policy", "no-referrer")
                self.send_header("X-Content-Type-Options", "nosniff")
                self.end_headers()
                if body:
                    self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing: the address has the token in it."""

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except (OSError, OverflowError) as error:
            said = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(f"port {port} cannot be taken: {said}") from None

    @property
    def url(self) -> str:
        """Where the page is, with the token."""
        here = f"http://127.0.0.1:{self._server.server_address[1]}/{self.token}/"
        if self.recording is None:
            return here
        return f"{here}?{urlencode({'recording': self.recording.name})}"

    def serve(self) -> None:
        """Serve until interrupted or closed."""
        with self._server:
            self._server.serve_forever()

    def close(self) -> None:
        """End `serve`, which another thread is in."""
        self._server.shutdown()
