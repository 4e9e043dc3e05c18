"""The compiled form of a module is found by the checksum of the module's source."""

from __future__ import annotations

import sys
from importlib import import_module, invalidate_caches
from pathlib import Path
from zlib import crc32

import pytest

from protocol.records.compiled import find_compiled, has_compiled


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The source of the module `plainmodule`, which can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "plainmodule", raising=False)
    path = tmp_path / "plainmodule.py"
    path.write_text("NUMBER = 1\n")
    return path


def test_a_module_without_a_compiled_form_has_none(source: Path) -> None:
    assert find_compiled(import_module("plainmodule")) is None
    assert not has_compiled("plainmodule")


def test_the_form_of_the_present_source_is_found(source: Path) -> None:
    """Looking for it imports neither."""
    compiled = f"plainmodule_{crc32(source.read_bytes()):08x}"
    (source.parent / f"{compiled}.py").write_text("NUMBER = 2\n")
    invalidate_caches()
    assert has_compiled("plainmodule")
    assert not {"plainmodule", compiled} & set(sys.modules)

    found = find_compiled(import_module("plainmodule"))
    assert found is not None
    assert found.NUMBER == 2

    source.write_text("NUMBER = 3\n")
    assert not has_compiled("plainmodule")


def test_a_module_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ImportError, match="nomodule has no source"):
        has_compiled("nomodule")
