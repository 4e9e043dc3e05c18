"""Empty Python environments, and installers that fill them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

#: pip, and the other installers of this machine
INSTALLERS = ["pip", *(each for each in ("pipx", "uv") if shutil.which(each) is not None)]
_LIMIT_S = 240


class Environment:
    """An empty environment in a folder, which installs only from a wheelhouse."""

    def __init__(self, folder: Path, wheelhouse: Path) -> None:
        self.folder = folder
        self._wheelhouse = wheelhouse
        self._home = folder / "home"
        self._home.mkdir(parents=True)

    @property
    def root(self) -> Path:
        """Return the virtual environment; pipx makes one for each package."""
        return next(self._home.glob("venvs/*"), self.folder / "environment")

    @property
    def python(self) -> Path:
        return self.root / "bin" / "python"

    @property
    def site(self) -> Path:
        """Return the folder of packages."""
        (found,) = self.root.glob("lib/python*/site-packages")
        return found

    def install(self, installer: str, *packages: str) -> None:
        """Install by this Python's pip, or by pipx or uv."""
        if installer != "pipx":
            self._make()
        command = {
            "pip": [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"],
            "pipx": ["pipx", "install", "--quiet", "--python", sys.executable],
            "uv": ["uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", str(self.python)],
        }[installer]
        settings = self._settings(
            PYBROKER_COMPILE="0"
        )  # tests/property/test_compiled_modules.py covers the compiled modules
        done = subprocess.run(
            [*command, *packages],
            cwd=self.folder,
            env=settings,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def borrow(self) -> None:
        """Let the environment import the packages of this Python, after its own."""
        self._make()
        (self.site / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")

    def uninstall(self, package: str) -> None:
        """Uninstall a package by pip."""
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "uninstall", "--quiet", "--yes", package]
        subprocess.run(command, env=self._settings(), check=True, capture_output=True, timeout=_LIMIT_S)

    def uvx(self, wheel: Path, *arguments: str) -> str:
        """Return what `pybroker` prints when uvx runs it from a wheel."""
        command = ["uvx", "--quiet", "--python", sys.executable, "--from", str(wheel), "pybroker", *arguments]
        done = subprocess.run(
            command, cwd=self._home, env=self._settings(), capture_output=True, text=True, timeout=_LIMIT_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in an empty folder; it must exit with this code."""
        program, *arguments = words
        done = subprocess.run(
            [str(self.root / "bin" / program), *arguments],
            cwd=self._home,
            env=self._settings(),
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    @contextmanager
    def broker(self, *options: str) -> Iterator[dict[str, str]]:
        """Run the environment's `pybroker serve` until the context ends; yield its listeners by name."""
        command = [str(self.root / "bin" / "pybroker"), "serve", "--ephemeral", "--print-json", *options]
        with subprocess.Popen(
            command, cwd=self._home, env=self._settings(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, process.communicate(timeout=_LIMIT_S)[1]
                yield json.loads(line)["listeners"]
            finally:
                process.send_signal(signal.SIGTERM)
                _, log = process.communicate(timeout=_LIMIT_S)
        assert process.returncode == 0, log

    def packages(self) -> set[str]:
        """Return the names of the installed packages."""
        return {each.name.partition("-")[0].lower() for each in self.site.glob("*.dist-info")}

    def files(self, *folders: str) -> dict[str, str]:
        """Return the checksum of each file in folders of site-packages, without bytecode."""
        found = [path for folder in folders for path in (self.site / folder).rglob("*.py")]
        return {str(path.relative_to(self.site)): sha256(path.read_bytes()).hexdigest() for path in found}

    def size(self, files: str = "**/*") -> int:
        """Return the size of files in bytes, bytecode included."""
        return sum(each.stat().st_size for each in self.site.glob(files) if each.is_file())

    def _make(self) -> None:
        if not self.root.exists():
            venv.create(self.root, with_pip=False, symlinks=True)

    def _settings(self, **more: str) -> dict[str, str]:
        """Return environment variables without a package index and without the user's settings of these programs."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP", "UV_", "PYTHON"))}
        return {
            **kept,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self._wheelhouse),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIPX_HOME": str(self._home),
            "PIPX_BIN_DIR": str(self.folder / "bin"),
            "UV_NO_INDEX": "1",
            "UV_FIND_LINKS": str(self._wheelhouse),
            "UV_NO_CONFIG": "1",
            "UV_CACHE_DIR": str(self.folder / "cache"),
            "UV_LINK_MODE": "copy",
            **more,
        }
