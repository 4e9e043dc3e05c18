"""Place the engine's packages in the wheel, and compile two modules where there is a C compiler.

All else is in pyproject.toml. Only `pybroker` is installed at the top level (docs/decisions/packages.md): the engine's
packages, `storage` and the others, lie at the root of the source tree, and in the wheel below `pybroker/engine`.

What is compiled, and how it is chosen at run time: docs/decisions/compiled-modules.md. PYBROKER_COMPILE=0 compiles
nothing; with PYBROKER_COMPILE=1, an installation that cannot compile fails.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from runpy import run_path
from zlib import crc32

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ENGINE = "pybroker.engine"
ROOMS = sorted(run_path("pybroker/engine_process.py")["PACKAGES"])
NOT_INSTALLED = ["tools.site", "tools.site.*"]  # it builds the documentation from a source tree
#: Modules that a source tree alone can use: writers of generated pages.
NOT_INSTALLED_MODULES = (
    "broker/observability/metrics/docs.py",
    "broker/requests/api_docs.py",
    "config/docs.py",
    "config/generated_pages.py",
    "config/shipped.py",
    "pybroker/pipeline/reference.py",
)
SOURCES = (Path("storage/cleaner/walk.py"), Path("protocol/records/fields.py"))
COMPILE = os.environ.get("PYBROKER_COMPILE", "")


class BuildPackages(build_py):
    """Adds the engine's packages to those of pyproject.toml, under the names that they have in the wheel.

    An editable installation builds nothing here: it maps `pybroker` alone, and pybroker/engine_process.py finds the
    engine's packages in the source tree.
    """

    def finalize_options(self) -> None:
        super().finalize_options()
        self.package_dir = {**(self.package_dir or {}), **{f"{ENGINE}.{room}": room for room in ROOMS}}
        found = find_packages(
            include=[pattern for room in ROOMS for pattern in (room, f"{room}.*")], exclude=NOT_INSTALLED
        )
        self.packages = [*(self.packages or ()), *(f"{ENGINE}.{each}" for each in found)]

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        found = super().find_package_modules(package, package_dir)
        return [each for each in found if not any(map(Path(each[2]).match, NOT_INSTALLED_MODULES))]


def compiled_name(source: Path) -> str:
    """Return the name of the compiled module of a source file.

    By its checksum `protocol/records/compiled.py` finds the one that was compiled from the source that is installed.
    """
    return f"{source.stem}_{crc32(source.read_bytes()):08x}"


class BuildCompiled(build_ext):
    """Compiles copies of the sources under the names of the compiled modules, and removes those of earlier sources."""

    def run(self) -> None:
        for source in SOURCES:
            target = source.parent if self.inplace else Path(self.build_lib, *ENGINE.split("."), source.parent)
            for former in target.glob(f"{source.stem}_*.so"):
                former.unlink()
        super().run()

    def build_extension(self, ext: Extension) -> None:
        from Cython.Build import cythonize

        directory = Path(self.build_temp)
        directory.mkdir(parents=True, exist_ok=True)
        name = ext.name.rpartition(".")[2]
        source = next(each for each in SOURCES if compiled_name(each) == name)
        for suffix in (".py", ".pxd"):
            shutil.copyfile(source.with_suffix(suffix), directory / f"{name}{suffix}")
        directives = {"annotation_typing": False, "overflowcheck": True}
        copy = Extension(name, [str(directory / f"{name}.py")])
        ext.sources = cythonize([copy], compiler_directives=directives, quiet=True)[0].sources
        super().build_extension(ext)


def has_compiler() -> bool:
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(compiler) is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


# Optional: where one does not compile, Python runs its source
compiled = [
    Extension(
        ".".join((ENGINE, *source.parent.parts, compiled_name(source))),
        [],
        extra_compile_args=["-O2", "-g0"],
        extra_link_args=["-s"] if sys.platform == "linux" else [],
        optional=COMPILE != "1",
    )
    for source in SOURCES
]
setup(
    ext_modules=compiled if COMPILE == "1" or (COMPILE != "0" and has_compiler()) else [],
    cmdclass={"build_ext": BuildCompiled, "build_py": BuildPackages},
)
