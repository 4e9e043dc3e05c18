"""Functions that MkDocs calls while it builds the site (mkdocs.yml: hooks)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.site.pages import (
    command_menu,
    reference_pages,
    with_anchors,
    with_api_links,
)
from tools.site.sources import (
    ROOT,
    relinked,
    source_pages,
    source_text,
)

_DOCS = ROOT / "docs"
#: Path in the project -> path in the site, of all hand-written pages; rebuilt with each build.
_places: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the menu with the commands, the decisions, and pages that the configuration does not list."""
    assert config.nav is not None
    named = set(_paths(config.nav))
    _fill(config.nav, named)
    others = sorted(_written("**/*.md") - _written("decisions/*.md") - named)
    if others:
        config.nav.append({"More": others})
    return config


def _fill(items: list[Any], named: set[str]) -> None:
    """Replace COMMANDS and DECISIONS in the menu by their pages."""
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            continue
        for title, inner in item.items():
            if inner == "COMMANDS":
                items[number] = {title: command_menu()}
            elif inner == "DECISIONS":
                pages = sorted(_written("decisions/*.md") - named - {"decisions/README.md"})
                items[number] = {title: ["decisions/README.md", *pages]}
            elif isinstance(inner, list):
                _fill(inner, named)


def _paths(items: Any) -> list[str]:
    if isinstance(items, str):
        return [items]
    inner = items.values() if isinstance(items, dict) else items
    return [path for each in inner for path in _paths(each)]


def _written(pattern: str) -> set[str]:
    return {path.relative_to(_DOCS).as_posix() for path in _DOCS.glob(pattern)}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and files of the project that pages link to."""
    _places.clear()
    _places.update({f"docs/{path}": path for path in _written("**/*.md")})
    sources = source_pages(list(_places))
    _places.update(sources)
    for path, place in sources.items():
        files.append(File.generated(config, place, content=source_text(path)))
    for place, text in reference_pages().items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to the project's files at their pages; add anchors and links to the tables of docs/generated."""
    place = page.file.src_uri
    origins = [path for path, there in _places.items() if there == place]
    if origins:
        markdown = relinked(markdown, origins[0], place, _places)
    if place == "generated/apis.md":
        return with_api_links(markdown)
    return with_anchors(markdown) if Path(place).parent.name == "generated" else markdown
