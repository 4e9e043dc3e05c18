"""The documentation site builds without a warning. Its links work, and it loads nothing from other hosts."""

from __future__ import annotations

import posixpath
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tools.site.pages import reference_pages

ROOT = Path(__file__).resolve().parents[2]
#: Tags with a URL that a browser loads by itself, and the attribute of that URL.
_LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
_NOT_LOADED = {"canonical", "prev", "next", "alternate"}


class _Page(HTMLParser):
    """One page: its links, the files that it loads, and the anchors that links may name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.classes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.classes |= set(values.get("class", "").split())
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in _LOADED and _LOADED[tag] in values and values.get("rel") not in _NOT_LOADED:
            self.loads.append(values[_LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does, in a temporary directory."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "tools.site", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, _Page]:
    """Map the path from the site's root to the page, for all pages but that of error 404."""
    files = [path for path in site.rglob("*.html") if path.name != "404.html"]
    return {path.relative_to(site).as_posix(): _Page(path.read_text()) for path in files}


def _built(page: str) -> str:
    """Return the path of the HTML page of this Markdown file."""
    stem = page.removesuffix(".md")
    folder, name = posixpath.split(stem)
    return posixpath.join(folder if name.lower() in ("index", "readme") else stem, "index.html")


def test_each_source_page_is_built(pages: dict[str, _Page]) -> None:
    """Pages come from docs/ and from the code."""
    written = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    expected = {_built(page) for page in (*written, *reference_pages())}

    assert expected - pages.keys() == set()
    assert len(expected) > 150


def test_links_within_the_site_work(site: Path, pages: dict[str, _Page]) -> None:
    """A link's file exists, and so does its anchor."""
    broken = []
    for path, page in pages.items():
        for link in {*page.links, *page.loads}:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = posixpath.normpath(
                posixpath.join(posixpath.dirname(path), unquote(parts.path)) if parts.path else path
            )
            if (site / target).is_dir():
                target = posixpath.normpath(posixpath.join(target, "index.html"))
            linked = pages.get(target)
            if not (site / target).is_file() or (
                parts.fragment and linked and unquote(parts.fragment) not in linked.anchors
            ):
                broken.append(f"{path}: {link}")

    assert broken == []


def test_nothing_is_loaded_from_other_hosts(site: Path, pages: dict[str, _Page]) -> None:
    """Scripts, styles, fonts and pictures are local. Mermaid diagrams would load a script from another host."""
    assert {load for page in pages.values() for load in page.loads if urlsplit(load).netloc} == set()
    assert [path for path, page in pages.items() if "mermaid" in page.classes] == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert "url(http" not in styles
    assert "@import" not in styles


def test_configs_and_apis_can_be_linked_to(pages: dict[str, _Page]) -> None:
    """Rows of the tables have anchors. Each API has a page."""
    assert {"log.segment.bytes", "num.workers"} <= pages["generated/configs/index.html"].anchors
    assert "pybroker_connections" in pages["generated/metrics/index.html"].anchors
    assert "UNKNOWN_TOPIC_OR_PARTITION" in pages["reference/error-codes/index.html"].anchors
    assert "../../reference/apis/produce/" in pages["generated/apis/index.html"].links
