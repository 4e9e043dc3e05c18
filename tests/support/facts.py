"""The page docs/generated/facts.md, which lists the tests that show each fact, from the tests' docstrings.

python -m tests.support.facts            write it, from the project's root
python -m tests.support.facts --check    exit code 1 if it is not current

The facts of the documents that describe Kafka's logs have numbers. "S4.16" in the docstring of a test says that the
test shows this one, "S4.10-S4.12" that it shows three. In the docstring of a file it counts for the whole file. Short
names are in tests/data/facts/documents.tsv; facts that no test can show are in documents-without-test.tsv, with the
reason.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FACTS_PAGE = Path("docs/generated/facts.md")

_FACTS = ROOT / "tests/data/facts"
_CITED = re.compile(r"\bS(\d+)\.(\d+)(?:\s?-\s?S(\d+)\.(\d+))?\b")
_HEAD = """\
# Facts and the tests that show them

Written by `python -m tests.support.facts` from the docstrings of the tests; edit those.

These are shortened statements of documents about Kafka's logs, each with the test files below `tests/` that show it.
The docstring of the test has the id. Where a document is wrong or outdated, the test shows what Apache Kafka 4.3 does.
"""
_AREA = "\n## {id} {name}\n\n"


def facts() -> dict[str, str]:
    """Return short names by id, areas ("S4") before their facts ("S4.1")."""
    return _rows("documents.tsv")


def without_test() -> dict[str, str]:
    """Return reasons by id."""
    return _rows("documents-without-test.tsv")


def _rows(name: str) -> dict[str, str]:
    lines = (_FACTS / name).read_text().splitlines()[1:]
    return dict(line.split("\t") for line in lines)


def cited_in(text: str) -> Iterator[str]:
    """Yield the ids in a text, each id of a range. ValueError for an invalid range."""
    for area, first, last_area, last in _CITED.findall(text):
        if not last:
            last = first
        elif last_area != area or int(last) <= int(first):
            raise ValueError(f"S{area}.{first}-S{last_area}.{last} is no range of facts")
        for number in range(int(first), int(last) + 1):
            yield f"S{area}.{number}"


def citations() -> dict[str, dict[str, list[str]]]:
    """Return by id the files (from the root) that cite it, each with the names of its tests; none for a whole file."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        module = ast.parse(path.read_text())
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
                for fact in cited_in(ast.get_docstring(node) or ""):
                    names = found.setdefault(fact, {}).setdefault(str(path.relative_to(ROOT)), [])
                    if not isinstance(node, ast.Module) and node.name not in names:
                        names.append(node.name)
    return found


def facts_page() -> str:
    """Return the whole page docs/generated/facts.md."""
    shown, reasons = citations(), without_test()
    parts = [_HEAD]
    for fact, name in facts().items():
        if "." not in fact:
            parts.append(_AREA.format(id=fact, name=name))
            continue
        files = ", ".join(f"`{file.removeprefix('tests/')}`" for file in shown.get(fact, {}))
        name = name.replace("<", "&lt;")
        parts.append(f"- **{fact}** {name} ({files or f'no test: {reasons.get(fact)}'})\n")
    return "".join(parts)


def main(argv: Sequence[str]) -> int:
    """Write the page, or compare it; return the exit code."""
    text = facts_page()
    page = ROOT / FACTS_PAGE
    if page.exists() and page.read_text() == text:
        return 0
    if "--check" in argv:
        print(f"{FACTS_PAGE} is not current: run python -m tests.support.facts", file=sys.stderr)
        return 1
    page.write_text(text)
    print(f"wrote {FACTS_PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
