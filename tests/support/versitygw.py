"""versitygw: a server of S3 that is a program of its own, in Go. It keeps objects as files, checks signatures."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.ports import HOST, free_port, listens
from tests.support.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY
from tests.support.toolchains import go_tool

_PACKAGE, _VERSION = "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"


class Gateway:
    """A running server with one bucket, an empty one at first."""

    def __init__(self, endpoint: str, bucket: Path) -> None:
        self.endpoint = endpoint
        self._bucket = bucket

    @property
    def settings(self) -> dict[str, str]:
        """Return object_store's settings for this server."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_region": "us-east-1",
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
        }

    @property
    def objects(self) -> dict[str, Path]:
        """Return the files of the objects by key; versitygw's own files begin with a dot."""
        files = (path for path in self._bucket.rglob("*") if path.is_file())
        found = {str(path.relative_to(self._bucket)): path for path in files}
        return {key: path for key, path in found.items() if not key.startswith(".")}


@contextmanager
def versitygw(directory: Path) -> Iterator[Gateway]:
    """Run the server with its files below `directory`.

    Attributes of objects are files, too: without them (`--nometa`) it replaces objects that are to be created.
    """
    bucket, attributes = directory / "files" / BUCKET, directory / "attributes"
    bucket.mkdir(parents=True)
    attributes.mkdir()
    port = free_port()
    address = f"{HOST}:{port}"
    program = go_tool(_PACKAGE, _VERSION)
    command = [str(program), "--port", address, "posix", "--sidecar", str(attributes), str(bucket.parent)]
    variables = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    with (directory / "output.txt").open("wb") as output:
        process = subprocess.Popen(command, env=variables, stdout=output, stderr=output)
        try:
            eventually(lambda: listens(process.pid, port), until=bool)
            yield Gateway(f"http://{address}", bucket)
        finally:
            process.kill()
            process.wait()
