"""Import cycles: one file of a cycle cannot be read or changed alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: A class and a helper that takes it may name each other; more files than that are one room without walls.
MOST_FILES = 3


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _modules() -> dict[str, Path]:
    """All modules of the packages at the top, tests left out."""
    packages = [each.parent for each in ROOT.glob("*/__init__.py") if each.parent.name != "tests"]
    return {_module_name(path): path for package in packages for path in package.rglob("*.py")}


def _base(module: str, is_package: bool, node: ast.ImportFrom) -> str:
    """The module that a `from ... import` names, with relative ones made absolute."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, node.module] if node.module else kept)


def _imported(module: str, path: Path, modules: Set[str]) -> Iterator[str]:
    """Modules of ours that a file imports: at its top, in functions, and under TYPE_CHECKING."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _base(module, path.name == "__init__.py", node)
            names = [f"{base}.{each.name}" for each in node.names]
        for name in names:
            while name and name not in modules:
                name = name.rpartition(".")[0]
            if name and name != module:
                yield name


def _cycles(imports: Mapping[str, Set[str]]) -> list[list[str]]:
    """Strongly connected components of more than one module (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    for root in imports:
        work = [] if root in index else [(root, iter(imports[root]))]
        for name, _ in work:
            index[name] = lowest[name] = len(index)
            stack.append(name)
        while work:
            name, following = work[-1]
            for each in following:
                if each not in index:
                    index[each] = lowest[each] = len(index)
                    stack.append(each)
                    work.append((each, iter(imports[each])))
                    break
                if each in stack:
                    lowest[name] = min(lowest[name], index[each])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[name])
                if lowest[name] == index[name]:
                    begin = stack.index(name)
                    component, stack[begin:] = stack[begin:], []
                    if len(component) > 1:
                        found.append(sorted(component))
    return found


def test_the_search_finds_cycles() -> None:
    """Two apart, one inside of another, and none where imports only meet."""
    assert _cycles({"a": {"b"}, "b": {"c"}, "c": set(), "d": {"b", "c"}}) == []
    rings = {"a": {"b"}, "b": {"c"}, "c": {"a", "b"}, "d": {"a", "e"}, "e": {"d"}}
    assert sorted(_cycles(rings)) == [["a", "b", "c"], ["d", "e"]]


def test_no_import_cycle_has_more_than_three_files() -> None:
    """Imports for types count: a reader follows them as any other."""
    modules = _modules()
    assert len(modules) > 500
    imports = {name: set(_imported(name, path, modules.keys())) for name, path in modules.items()}
    assert [cycle for cycle in _cycles(imports) if len(cycle) > MOST_FILES] == []
