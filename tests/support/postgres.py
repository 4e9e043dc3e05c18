"""A PostgreSQL server for a test, on loopback; its programs come from Maven's central repository, as Kafka does.

They refuse to run as root: where the test runs as root, they run as nobody.
"""

from __future__ import annotations

import os
import platform
import pwd
import signal
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pybroker.pipeline.jars import Artifact, resolve
from tests.support.brokers import HOST
from tests.support.eventually import eventually
from tests.support.ports import free_port

#: the driver, as `packages` of a sink names it
DRIVER = "org.postgresql:postgresql:42.7.14"

_VERSION = "17.5.0"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64v8"}
_READY = "database system is ready to accept connections"
_PATIENCE_S = 60
#: Python has it since 3.11.4
_ONLY_DATA: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


class Postgres:
    """A server from a folder of programs; it can be started and stopped several times."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._data = folder, folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        self._port = free_port()
        self._data.mkdir(mode=0o700)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self._data, nobody.pw_uid, nobody.pw_gid)
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        initdb = [str(folder / "bin" / "initdb"), "-D", str(self._data), "--username=test", "--auth=trust", "--no-sync"]
        done = subprocess.run(initdb, capture_output=True, text=True, cwd=self._data, **self._as)
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://{HOST}:{self._port}/postgres?user=test"

    def start(self) -> None:
        """Start the server, and return once it accepts connections."""
        settings = {"listen_addresses": HOST, "port": self._port, "unix_socket_directories": "", "fsync": "off"}
        command = [str(self._folder / "bin" / "postgres"), "-D", str(self._data)]
        command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        output = self._folder / "output.txt"
        with output.open("wb") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=file, cwd=self._data, **self._as)
        process = self._process
        eventually(
            lambda: _READY in output.read_text() or process.poll() is not None, output.read_text, timeout_s=_PATIENCE_S
        )
        assert process.poll() is None, output.read_text()

    def stop(self) -> None:
        """Stop at once: sessions break off, and the next start recovers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(_PATIENCE_S)


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Run a server with an empty database, which is removed at the end."""
    artifact = f"embedded-postgres-binaries-linux-{_MACHINES[platform.machine()]}"
    [jar] = resolve(f"postgres-{_VERSION}", [Artifact("io.zonky.test.postgres", artifact, _VERSION)])
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with zipfile.ZipFile(jar) as packed:
            [archive] = [member for member in packed.namelist() if member.endswith(".txz")]
            with packed.open(archive) as file, tarfile.open(fileobj=file, mode="r:xz") as programs:
                programs.extractall(folder, **_ONLY_DATA)
        server = Postgres(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
