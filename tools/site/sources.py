"""Files outside docs/ that pages link to: each gets a page below source/, and links point there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

from tools.site.markdown import code

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
_FENCED = re.compile(r"(^(`{3,}).*?^\2`*\s*?$)", re.MULTILINE | re.DOTALL)
_LANGUAGES = {".go": "go", ".py": "python", ".yaml": "yaml", ".properties": "properties", ".sh": "sh", ".json": "json"}


def source_pages(pages: Iterable[str]) -> dict[str, str]:
    """Return path in the project -> path in the site, of files that the given pages and those files link to."""
    found: dict[str, str] = {}
    waiting = list(pages)
    while waiting:
        page = waiting.pop()
        for target in _targets(page):
            if not target.startswith("docs/") and target not in found and (ROOT / target).is_file():
                found[target] = _place(target)
                if target.endswith(".md"):
                    waiting.append(target)
    return found


def source_text(path: str) -> str:
    """Return a file of the project as a page: Markdown unchanged, other files as code."""
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return text
    return f"# {path}\n\n{code(text, _LANGUAGES.get(Path(path).suffix, 'text'))}"


def relinked(text: str, origin: str, page: str, places: dict[str, str]) -> str:
    """Return a file's text with links adapted to its page.

    `places`: path in the project -> in the site. Links to files without a page stay; MkDocs reports them.
    """

    def resolve(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        place = None if "://" in target else places.get(_resolved(target, origin))
        return match[0] if place is None else posixpath.relpath(place, posixpath.dirname(page) or ".") + anchor

    parts = _FENCED.split(text)  # text, a fenced block, its fence, text, ...
    parts[::3] = (_LINK.sub(resolve, part) for part in parts[::3])
    del parts[2::3]
    return "".join(parts)


def _targets(page: str) -> list[str]:
    text = "".join(_FENCED.split((ROOT / page).read_text())[::3])
    return [_resolved(match[1], page) for match in _LINK.finditer(text) if "://" not in match[1]]


def _resolved(target: str, origin: str) -> str:
    """Return the project path of a link on a page; for a folder, its README."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
    return f"{path}/README.md" if (ROOT / path).is_dir() else path


def _place(path: str) -> str:
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"
