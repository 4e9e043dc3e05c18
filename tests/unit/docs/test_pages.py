"""Links, paths and file names in pages, docstrings and comments exist. READMEs name each file."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "*/README.md", "tests/*/*.md") for path in ROOT.glob(pattern)
)
ROOMS = (
    "protocol|client|storage|security|metadata|replication|tiered|remote|coordinator|runtime|config|controller|broker|tools|console|pybroker|"
    "tests|bench|docs|docker|examples"
)
MODULES = sorted(path for room in ROOMS.split("|") for path in ROOT.glob(f"{room}/**/*.py"))
#: A file of Python, with folders or without; not behind `.../` or `./`. Everybody has a conftest.py.
FILE_NAME = re.compile(r"(?<![\w./*>}-])(?!conftest\.py)(?:[\w-]+/)*[\w-]+\.py\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    """Links are relative to the page. Paths start at the root."""
    text = page.read_text()
    links = [target for target in re.findall(r"\]\(([^)#]+)", text) if "://" not in target]
    paths = re.findall(rf"`((?:{ROOMS})/[\w./-]+)`", text)

    assert [target for target in links if not (page.parent / target).exists()] == []
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    """A README's are below its folder or at the root, another page's anywhere. Code blocks may name foreign files."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    of_room = page.name == "README.md" and page.parent != ROOT
    known = [f"/{path.relative_to(ROOT)}" for path in (ROOT / "setup.py", *MODULES)]
    below = [name for name in known if not of_room or name.startswith(f"/{page.parent.relative_to(ROOT)}/")]

    named = set(FILE_NAME.findall(text))
    assert {
        name for name in named if f"/{name}" not in known and not any(n.endswith(f"/{name}") for n in below)
    } == set()


def test_files_that_docstrings_and_comments_name_are_there() -> None:
    """In the folder of the module, or in one above it, up to the root."""
    lost = [
        f"{module.relative_to(ROOT)}: {name}"
        for module in MODULES
        if FILE_NAME.search(module.read_text())
        for remark in remarks(module)
        for name in FILE_NAME.findall(remark)
        if not any((folder / name).exists() for folder in module.parents if folder.is_relative_to(ROOT))
    ]
    assert lost == []


def remarks(module: Path) -> Iterator[str]:
    """Return its comments and docstrings."""
    before = tokenize.NEWLINE
    with module.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type == tokenize.COMMENT:
                yield token.string
            elif token.type not in (tokenize.NL, tokenize.ENCODING):
                if token.type == tokenize.STRING and before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
                    yield token.string
                before = token.type


@pytest.mark.parametrize(
    "room",
    [
        "broker",
        "client",
        "console",
        "config",
        "controller",
        "coordinator",
        "tools/site",
        "metadata",
        "tools",
        "protocol",
        "pybroker",
        "replication",
        "tiered",
        "remote",
        "runtime",
        "security",
        "storage",
        "tests/support",
    ],
)
def test_the_readme_of_a_room_names_each_file(room: str) -> None:
    """The file itself, or a folder that contains it. `<api>` stands for many files."""
    quoted = [
        word for span in re.findall(r"`([^`\n]+)`", (ROOT / room / "README.md").read_text()) for word in span.split()
    ]
    folders = [word for word in quoted if word.endswith("/")]
    files = [re.sub(r"/<\w+>", "/*", word.removesuffix(".py")) for word in quoted]
    unnamed = []
    for module in (ROOT / room).rglob("*.py"):
        name = f"/{module.relative_to(ROOT / room).with_suffix('')}"
        if (
            module.name != "__init__.py"
            and not any(fnmatch(name, f"*/{word}") for word in files)
            and not any(f"/{folder}" in name for folder in folders)
        ):
            unnamed.append(name)
    assert unnamed == []


def test_the_list_of_decisions_is_complete() -> None:
    """Nobody reads a page without a link to it."""
    listed = re.findall(r"^\| \[([\w-]+\.md)\]", (ROOT / "docs/decisions/README.md").read_text(), re.MULTILINE)

    assert sorted(path.name for path in (ROOT / "docs/decisions").glob("*.md")) == sorted([*listed, "README.md"])


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.parent.name == "decisions" and page.name != "README.md"],
    ids=lambda page: str(page.name),
)
def test_a_decision_has_a_date_and_a_status(page: Path) -> None:
    """They stand below its title. The list of decisions has the same date."""
    lines = page.read_text().splitlines()
    stated = re.match(r"Date: (\d{4}-\d\d-\d\d)\. Status: (accepted|superseded by \[.*\]\(.*\))\.", lines[2])
    assert stated is not None
    assert re.search(rf"^\| \[{page.name}\].* \| {stated[1]} \|", (page.parent / "README.md").read_text(), re.MULTILINE)


def test_pybroker_is_installed_from_its_sources() -> None:
    """A package index may have another package of that name, or none."""
    pattern = r"pip install (?:--?\S+ )*['\"]?pybroker\b"

    assert [str(page) for page in PAGES if page.name != "CHANGELOG.md" and re.search(pattern, page.read_text())] == []
