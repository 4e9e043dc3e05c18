"""A bucket in memory that speaks as much of S3 as obstore uses, with the faults that a test asks for.

`tests/unit/remote/test_stores.py` uses it as one of several stores of equal behaviour. It checks the name of the access
key, and no signature.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.ports import HOST

BUCKET = "segments"
ACCESS_KEY, SECRET_KEY = "someone", "a-secret-value"
_PAGE = 1000


class Fault(Enum):
    """A failure of a request instead of its answer."""

    SLOW_DOWN = "503, SlowDown"
    BROKEN = "500, InternalError"
    HANG = "no answer until the server stops"
    CUT = "the connection ends after half of the body"
    LOST_ANSWER = "the request is served, and the connection ends before the answer"
    DENIED = "403, AccessDenied"
    SKEWED = "403, RequestTimeTooSkewed"
    LOST_KEY = "404 for everything, as some servers answer to an unknown access key"


_ANSWERS = {
    Fault.SLOW_DOWN: (503, "SlowDown"),
    Fault.BROKEN: (500, "InternalError"),
    Fault.DENIED: (403, "AccessDenied"),
    Fault.SKEWED: (403, "RequestTimeTooSkewed"),
    Fault.LOST_KEY: (404, "NoSuchKey"),
}


class Asked(NamedTuple):
    """A request: its method and the object's key, which is empty for a listing."""

    method: str
    key: str


class S3Server:
    """The objects by key, the requests so far, and the faults.

    `fault` is called for each request; it returns None for a request that is served.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[Asked] = []
        self.fault: Callable[[Asked], Fault | None] = lambda _: None
        self.most_at_once = 0
        self.stopped = threading.Event()
        self.endpoint = ""
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._now = 0
        self._lock = threading.Lock()

    @property
    def settings(self) -> dict[str, str]:
        """Return object_store's settings for this server."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_region": "us-east-1",
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
        }

    def fail_first(self, count: int, fault: Fault) -> None:
        """Let the next `count` requests fail."""
        left = [fault] * count
        self.fault = lambda _: left.pop() if left else None

    def begin(self, asked: Asked) -> Fault | None:
        """Note a request, and return its fault."""
        with self._lock:
            self.asked.append(asked)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            return self.fault(asked)

    def end(self) -> None:
        """Note that a request has been answered."""
        with self._lock:
            self._now -= 1

    def put(self, key: str, content: bytes, only_new: bool) -> bool:
        """Store an object. Returns False if there is one and only a new one is wanted."""
        with self._lock:
            if only_new and key in self.objects:
                return False
            self.objects[key] = content
            return True

    def upload(self, name: str) -> dict[int, bytes]:
        """Return the parts of an upload."""
        return self._uploads.setdefault(name, {})


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Yield a server with an empty bucket `BUCKET`."""
    state = S3Server()
    handler = type("Handler", (_Handler,), {"state": state})
    server = ThreadingHTTPServer((HOST, 0), handler)
    server.daemon_threads = True
    state.endpoint = f"http://{HOST}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        state.stopped.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    state: S3Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve(self._get)

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        self._serve(self._put)

    def do_POST(self) -> None:
        self._serve(self._post)

    def do_DELETE(self) -> None:
        self._serve(self._delete)

    def _serve(self, operation: Callable[[str, dict[str, str], bytes], None]) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.state.begin(Asked(self.command, key))
        self._fault = fault
        try:
            if fault is Fault.HANG:
                self.state.stopped.wait()
                self._drop()
            elif fault in _ANSWERS:
                self._refuse(*_ANSWERS[fault])
            elif f"Credential={ACCESS_KEY}/" not in self.headers.get("Authorization", ""):
                self._refuse(403, "InvalidAccessKeyId")
            elif bucket != BUCKET:
                self._refuse(404, "NoSuchBucket")
            else:
                operation(key, query, body)
        finally:
            self.state.end()

    # ---- operations

    def _get(self, key: str, query: dict[str, str], _: bytes) -> None:
        if not key:
            return self._list(query)
        content = self.state.objects.get(key)
        if content is None:
            return self._refuse(404, "NoSuchKey")
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            return self._answer(200, content)
        start, end = int(wanted[1]), min(len(content), int(wanted[2]) + 1 if wanted[2] else len(content))
        if start >= len(content):
            return self._refuse(416, "InvalidRange")
        return self._answer(206, content[start:end], {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"})

    def _list(self, query: dict[str, str]) -> None:
        after = query.get("continuation-token", query.get("start-after", ""))
        keys = sorted(each for each in self.state.objects if each.startswith(query.get("prefix", "")) and each > after)
        page = keys[:_PAGE]
        more = len(keys) > len(page)
        listed = "".join(
            f"<Contents><Key>{escape(each)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;x&quot;</ETag><Size>{len(self.state.objects[each])}</Size></Contents>"
            for each in page
        )
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        self._answer(
            200,
            f"<ListBucketResult><Name>{BUCKET}</Name><KeyCount>{len(page)}</KeyCount>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{listed}</ListBucketResult>".encode(),
        )

    def _put(self, key: str, query: dict[str, str], body: bytes) -> None:
        if "uploadId" in query:
            self.state.upload(query["uploadId"])[int(query["partNumber"])] = body
        elif not self.state.put(key, body, self.headers.get("If-None-Match") == "*"):
            return self._refuse(412, "PreconditionFailed")
        return self._answer(200, b"", {"ETag": '"x"'})

    def _post(self, key: str, query: dict[str, str], body: bytes) -> None:
        if "uploads" in query:
            name = f"<InitiateMultipartUploadResult><UploadId>upload-of-{escape(key)}</UploadId>"
            return self._answer(200, f"{name}</InitiateMultipartUploadResult>".encode())
        if "uploadId" in query:
            parts = self.state.upload(query["uploadId"])
            if not self.state.put(
                key, b"".join(parts[each] for each in sorted(parts)), self.headers.get("If-None-Match") == "*"
            ):
                return self._refuse(412, "PreconditionFailed")
            done = "<CompleteMultipartUploadResult><ETag>&quot;x&quot;</ETag></CompleteMultipartUploadResult>"
            return self._answer(200, done.encode())
        keys = re.findall(rb"<Key>([^<]*)</Key>", body)
        for each in keys:
            self.state.objects.pop(each.decode(), None)
        deleted = b"".join(b"<Deleted><Key>%b</Key></Deleted>" % each for each in keys)
        return self._answer(200, b"<DeleteResult>%b</DeleteResult>" % deleted)

    def _delete(self, key: str, _: dict[str, str], __: bytes) -> None:
        self.state.objects.pop(key, None)
        self._answer(204, b"")

    # ---- answers

    def _refuse(self, status: int, code: str) -> None:
        """Answer with an error as S3 does: with the access key and what was signed."""
        text = f"<Error><Code>{code}</Code><Message>no</Message><AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId></Error>"
        self._answer(status, text.encode())

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        if self._fault is Fault.LOST_ANSWER:
            return self._drop()
        self.send_response(status)
        for name, value in {"ETag": '"x"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return None
        if self._fault is Fault.CUT:
            self.wfile.write(body[: len(body) // 2])
            return self._drop()
        self.wfile.write(body)
        return None

    def _drop(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
