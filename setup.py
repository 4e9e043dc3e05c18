"""What is compiled when this is installed: `storage/cleaner/walk.py`, where there is a C compiler. Why, and how it is
chosen at run time: docs/decisions/compiled-modules.md. All else is in pyproject.toml.

PYBROKER_COMPILE=0 leaves it out; with 1 an installation that cannot compile fails.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from zlib import crc32

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE = Path("storage/cleaner/walk.py")
#: By its name `storage/cleaner/twin.py` knows that it was made of the source that is there.
NAME = f"{SOURCE.stem}_{crc32(SOURCE.read_bytes()):08x}"
WANTED = os.environ.get("PYBROKER_COMPILE", "")


class BuildTwin(build_ext):
    """Has Cython make C of a copy that has the twin's name; twins of other sources are removed."""

    def run(self) -> None:
        target = SOURCE.parent if self.inplace else Path(self.build_lib, SOURCE.parent)
        for former in target.glob(f"{SOURCE.stem}_*.so"):
            former.unlink()
        super().run()

    def build_extension(self, ext: Extension) -> None:
        from Cython.Build import cythonize

        directory = Path(self.build_temp)
        directory.mkdir(parents=True, exist_ok=True)
        for suffix in (".py", ".pxd"):
            shutil.copyfile(SOURCE.with_suffix(suffix), directory / f"{NAME}{suffix}")
        directives = {"annotation_typing": False, "overflowcheck": True}
        copy = Extension(NAME, [str(directory / f"{NAME}.py")])
        ext.sources = cythonize([copy], compiler_directives=directives, quiet=True)[0].sources
        super().build_extension(ext)


def has_compiler() -> bool:
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(compiler) is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


# One that turns out not to compile is left out
twin = Extension(f"storage.cleaner.{NAME}", [], extra_compile_args=["-O2", "-g0"], optional=WANTED != "1")
setup(
    ext_modules=[twin] if WANTED == "1" or (WANTED != "0" and has_compiler()) else [],
    cmdclass={"build_ext": BuildTwin},
)
