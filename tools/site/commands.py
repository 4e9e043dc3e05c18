"""A page for each command of `pybroker`, generated from its parser: `command_line()` of the command's module."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib import import_module

from broker.main import USAGE as BROKER_USAGE
from pybroker.cli.commands import COMMANDS, modules, usage
from tools.site.markdown import code, table

_MODULES = modules()
_PAGES = {
    "produce": "produce.md",
    "pipeline": "pipeline.md",
    "kafka-home": "kafka-scripts.md",
    **dict.fromkeys(("archive", "restore"), "archive.md"),
    **dict.fromkeys(modules("engine"), "data-tools.md"),
    **dict.fromkeys(("conformance", "explain", "record", "replay"), "wire.md"),
    "mirror": "mirror.md",
    **dict.fromkeys(("completion", "man"), "cluster-commands.md"),
    "stop": "../guides/operate.md",
}


def command_path(command: str) -> str:
    """Return the path of a command's page from the site's root."""
    return f"reference/commands/{command}.md"


def command_pages() -> dict[str, str]:
    """Return pages by path: the command itself, the broker, and the other commands in alphabetical order."""
    pages = {
        "reference/commands/index.md": _index(),
        command_path("serve"): f"# pybroker serve\n\nThe broker itself.\n\n{code(BROKER_USAGE)}",
    }
    for command in sorted(_MODULES):
        pages[command_path(command)] = _page(command, parser_of(command))
    return pages


def parser_of(command: str) -> argparse.ArgumentParser:
    """Return the parser of a command."""
    parser = import_module(_MODULES[command]).command_line()
    assert isinstance(parser, argparse.ArgumentParser)
    return parser


def _index() -> str:
    rows = ((f"[`pybroker {name}`]({name}.md)", row.help) for name, row in sorted(COMMANDS.items()))
    return "".join(
        (
            "# Commands\n\n",
            table(("command", "what it does"), rows),
            "\n## All of them at a glance\n\n",
            code(usage()),
            "\nGuides: [on a cluster](../cluster-commands.md), [on a data directory](../data-tools.md).\n",
        )
    )


def _page(command: str, parser: argparse.ArgumentParser) -> str:
    guide = _PAGES.get(command, "cluster-commands.md")
    return f"{_section(parser, '#')}\n[Guide](../{guide})\n"


def _section(parser: argparse.ArgumentParser, level: str) -> str:
    parts = [f"{level} {parser.prog}\n\n{_description(parser)}\n\n", code(_usage(parser))]
    actions = _actions(parser)
    rows = list(_arguments(parser))
    if rows:
        parts += ["\n", table(("argument", "meaning"), rows)]
    if parser.epilog:
        parts += ["\n", code(parser.epilog.replace("%%", "%"))]
    parts += (f"\n{_section(each, level + '#')}" for each in actions.values())
    return "".join(parts)


def _description(parser: argparse.ArgumentParser) -> str:
    text = parser.description or ""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) else ".")


def _usage(parser: argparse.ArgumentParser) -> str:
    """Return the usage without line breaks and colours of a terminal."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", parser.format_usage())
    return " ".join(text.split()).removeprefix("usage: ")


def _actions(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _arguments(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        yield _names(action), _help(action, parser)


def _names(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else None
    if action.choices is not None and metavar is None:
        metavar = "|".join(map(str, action.choices))
    if not action.option_strings:
        return f"`{metavar or action.dest}`" + ("..." if action.nargs in ("*", "+") else "")
    value = "" if action.nargs == 0 else f" {metavar or action.dest.upper()}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _help(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    return f"{text} (required)".strip() if action.required and action.option_strings else text
