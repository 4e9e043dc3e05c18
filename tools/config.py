"""`pybroker config print|explain|validate`: show the values of a configuration, explain a key, report errors.

Values are those that a broker starts with: default, file, environment, --override. Settings that were changed at run
time are in the broker's metadata log; `pybroker configs describe` shows them. Exit code 0; 2 for a bad command line, an
unreadable file, an unknown key, and a configuration that a broker would reject.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from config import (
    BrokerConfig,
    ConfigError,
    Problem,
    load,
)
from config.describe import broker_entries
from config.environ import variable_name
from config.key import ConfigKey, UpdateMode
from config.keys import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    DYNAMIC_ONLY_KEYS,
    GROUP_KEYS,
    QUOTA_KEYS,
    TOPIC_KEYS,
)
from config.keys.tiered import METADATA_TOPIC_KEYS
from config.keys.why_inert import OF_ONE_NODE
from pybroker.cli.exit_codes import end
from tools.command_line import OfflineParser

_HIDDEN = "[hidden]"

#: The table of keys by the entities that they configure.
_TABLES: Mapping[str, Mapping[str, ConfigKey]] = {
    "of the broker": BROKER_KEYS,
    "of the broker, while it runs": DYNAMIC_ONLY_KEYS,
    "of __remote_log_metadata": {f"rlmm.config.{row.name}": row for row in METADATA_TOPIC_KEYS},
    "of topics": TOPIC_KEYS,
    "of groups": GROUP_KEYS,
    "of client metrics subscriptions": CLIENT_METRICS_KEYS,
    "of users, clients and addresses": QUOTA_KEYS,
}

_CHANGES = {
    UpdateMode.READ_ONLY: "never",
    UpdateMode.PER_BROKER: "for one broker",
    UpdateMode.CLUSTER_WIDE: "for one broker, or for all",
}


class _Parser(OfflineParser):
    usage_exit_code = 2


def command_line() -> OfflineParser:
    """Return the parser of the command line; the documentation site has a page made from its help."""
    parser = _Parser(prog="pybroker config", description="Print, explain and check a broker's configuration.")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, dest="action")

    def add_action(word: str, about: str) -> ArgumentParser:
        return actions.add_parser(word, help=about, description=f"{about[:1].upper()}{about[1:]}.")

    shown = add_action("print", "print the value of each key and its origin")
    shown.add_argument("--given", action="store_true", help="print only keys that are set")
    checked = add_action("validate", "report errors with file, line, key, value and the allowed values")
    checked.add_argument("--strict", action="store_true", help="report unknown keys as errors, too")
    for action in (shown, checked):
        action.add_argument("file", nargs="?", metavar="FILE", help="a server.properties (default: none)")
        action.add_argument("--override", type=_override, action="append", default=[], metavar="KEY=VALUE")
    explained = add_action("explain", "explain a key and its allowed values")
    explained.add_argument("keys", nargs="+", metavar="KEY")
    for action in (shown, checked, explained):
        action.add_argument("--json", action="store_true", help="print one JSON object a line")
    return parser


def _override(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value.strip()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = command_line().parse_args(argv)
    if options.action == "explain":
        return _explain(options)
    try:
        config = load(
            options.file,
            overrides=dict(options.override),
            environ=os.environ,
            strict=options.action == "validate" and options.strict,
            to_serve=options.action == "validate",
        )
    except ConfigError as error:
        _print_warnings(error.warnings, as_json=options.json)
        _print_problems(error.problems, as_json=options.json)
        return 2
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        print(f"pybroker config: {options.file}: {reason}", file=sys.stderr)
        return 2
    if options.action == "validate":
        _print_warnings(config.warnings, as_json=options.json)
        if not options.json:
            print(f"{options.file or 'the defaults'}: no problems")
    else:
        _print(config, options)
    return 0


def _print(config: BrokerConfig, options: Namespace) -> None:
    for entry in sorted(broker_entries(config), key=lambda entry: entry.name):
        given = config.static.get(entry.name)
        origin = given.origin if given is not None else "default"
        if options.given and origin == "default":
            continue
        value = _HIDDEN if entry.sensitive and given is not None else entry.value
        if options.json:
            print(json.dumps({"key": entry.name, "value": value, "origin": origin}))
        else:
            print(f"{entry.name}={'' if value is None else value}  ({origin})")


def _print_warnings(warnings: Sequence[str], *, as_json: bool) -> None:
    for line in warnings:
        if as_json:
            print(json.dumps({"type": "warning", "what": line}))
        else:
            print(f"warning: {line}", file=sys.stderr)


def _print_problems(problems: Sequence[Problem], *, as_json: bool) -> None:
    for problem in problems:
        if as_json:
            fields = {
                "type": "problem",
                "origin": problem.origin,
                "key": problem.key,
                "value": problem.value,
                "what": problem.reason,
                "allowed": problem.allowed,
            }
            print(json.dumps(fields))
        else:
            print(problem, file=sys.stderr)


def _explain(options: Namespace) -> int:
    exit_code = 0
    for number, key in enumerate(options.keys):
        rows = [(whose, table[key]) for whose, table in _TABLES.items() if key in table]
        if not rows:
            every = dict.fromkeys(name for table in _TABLES.values() for name in table)
            near = get_close_matches(key, every, n=1)
            hint = f", did you mean {near[0]}?" if near else ""
            print(f"pybroker config: {key}: unknown key{hint}", file=sys.stderr)
            exit_code = 2
            continue
        for whose, row in rows:
            if options.json:
                print(json.dumps({"key": key, **dict(_facts(whose, row))}))
            else:
                print(("\n" if number else "") + key)
                print("\n".join(f"  {name.replace('_', ' '):<12} {text}" for name, text in _facts(whose, row)))
    return exit_code


def _facts(whose: str, row: ConfigKey) -> Iterator[tuple[str, str]]:
    """Yield the facts about a key as (name, text)."""
    yield "what", row.doc
    yield "whose", whose
    yield "type", row.type.name.lower()
    yield "default", "none" if row.default_text is None else row.default_text or '""'
    yield "allowed", row.allowed
    if row.name in BROKER_KEYS and whose == "of the broker":
        yield "changes", _CHANGES[row.update_mode]
        yield "environment", variable_name(row.name)
    if row.synonyms:
        yield (
            "else_from",
            ", ".join(name if factor == 1 else f"{name} (times {factor})" for name, factor in row.synonyms),
        )
    if len(row.family) > 1:
        yield "precedence", " before ".join(row.family)
    if row.replaced_by:
        yield "today", " and ".join(row.replaced_by)
    if row.inert:
        mode = "in a node that is its own controller" if row.inert in OF_ONE_NODE else "here"
        yield "note", f"no effect {mode}: {row.inert}"


if __name__ == "__main__":
    end(main)
