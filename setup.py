"""What is compiled when this is installed, where there is a C compiler. Why, and how it is chosen at run time:
docs/decisions/compiled-modules.md. All else is in pyproject.toml.

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

SOURCES = (Path("storage/cleaner/walk.py"), Path("protocol/records/fields.py"))
WANTED = os.environ.get("PYBROKER_COMPILE", "")


def twin_name(source: Path) -> str:
    """By it `protocol/records/compiled.py` knows that a twin was made of the source that is there."""
    return f"{source.stem}_{crc32(source.read_bytes()):08x}"


class BuildTwins(build_ext):
    """Has Cython make C of copies that have the twins' names; twins of other sources are removed."""

    def run(self) -> None:
        for source in SOURCES:
            target = source.parent if self.inplace else Path(self.build_lib, source.parent)
            for former in target.glob(f"{source.stem}_*.so"):
                former.unlink()
        super().run()

    def build_extension(self, ext: Extension) -> None:
        from Cython.Build import cythonize

        directory = Path(self.build_temp)
        directory.mkdir(parents=True, exist_ok=True)
        name = ext.name.rpartition(".")[2]
        source = next(each for each in SOURCES if twin_name(each) == name)
        for suffix in (".py", ".pxd"):
            shutil.copyfile(source.with_suffix(suffix), directory / f"{name}{suffix}")
        directives = {"annotation_typing": False, "overflowcheck": True}
        copy = Extension(name, [str(directory / f"{name}.py")])
        ext.sources = cythonize([copy], compiler_directives=directives, quiet=True)[0].sources
        super().build_extension(ext)


def has_compiler() -> bool:
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(compiler) is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


# One that turns out not to compile is left out
twins = [
    Extension(
        ".".join((*source.parent.parts, twin_name(source))),
        [],
        extra_compile_args=["-O2", "-g0"],
        optional=WANTED != "1",
    )
    for source in SOURCES
]
setup(
    ext_modules=twins if WANTED == "1" or (WANTED != "0" and has_compiler()) else [],
    cmdclass={"build_ext": BuildTwins},
)
