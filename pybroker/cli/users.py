"""`pybroker users`: list, create and delete users with passwords (SCRAM)."""

from __future__ import annotations

import argparse
import getpass
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pybroker.cli.client.command import run
from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.client.output import print_line, show
from pybroker.cli.option_values import positive
from pybroker.text_files import UnreadableText, file_bytes, utf8_text

if TYPE_CHECKING:
    from confluent_kafka.admin import UserScramCredentialAlteration

    from pybroker.cli.client.session import Session

_EXAMPLES = """\
examples:
  pybroker users list
  pybroker users create shop                             (asks for the password)
  pybroker users create shop --password-file shop.txt    (or - for standard input)
  pybroker users delete shop"""

_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
#: A longer file has no password in its first line. Clients would hash a long one for hours.
_PASSWORD_FILE_BYTES = 64 << 10
_ITERATIONS = 4096  # Kafka's own


def main(arguments: Sequence[str]) -> int:
    """Run the command, and return its exit code."""
    return run(command_line(), arguments)


def command_line() -> ClientParser:
    """Return the parser of the command line. The site has a page of its help."""
    parser = ClientParser("pybroker users", "Users with passwords (SCRAM).", _EXAMPLES)
    listed = parser.add_action("list", _list, "list users and their mechanisms")
    listed.add_argument("names", nargs="*", metavar="USER", help="(default: all)")
    created = parser.add_action("create", _create, "create a user, or change the password")
    created.add_argument("name", metavar="USER")
    created.add_argument(
        "--password-file",
        type=Path,
        metavar="FILE",
        help="a file with the password in its first line; - is standard input",
    )
    created.add_argument("--mechanism", choices=_MECHANISMS, action="append", help="(default: SCRAM-SHA-512)")
    created.add_argument("--iterations", type=positive, default=_ITERATIONS, help=f"({_ITERATIONS})")
    deleted = parser.add_action("delete", _delete, "delete a user's passwords")
    deleted.add_argument("name", metavar="USER")
    deleted.add_argument("--mechanism", choices=_MECHANISMS, action="append", help="(default: all of the user)")
    return parser


def _check_allowed(session: Session) -> None:
    """Raise CommandError if the user may not list users: librdkafka would end the process at that response."""
    from confluent_kafka.admin import AclOperation

    if not session.may(AclOperation.DESCRIBE):
        raise CommandError("not allowed: listing users needs the operation describe on the cluster")


def _list(session: Session, options: argparse.Namespace) -> None:
    _check_allowed(session)
    future: Any = session.admin.describe_user_scram_credentials(request_timeout=session.timeout_s)
    found = session.wait(future)
    rows = [
        {"user": user, "mechanism": _name(each.mechanism), "iterations": each.iterations}
        for user, described in sorted(found.items())
        if not options.names or user in options.names
        for each in described.scram_credential_infos
    ]
    show(rows, as_json=options.json)


def _create(session: Session, options: argparse.Namespace) -> None:
    from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    password = _password(options)
    mechanisms = options.mechanism or [_MECHANISMS[-1]]
    wanted = [
        UserScramCredentialUpsertion(
            options.name, ScramCredentialInfo(ScramMechanism[_upper(each)], options.iterations), password
        )
        for each in mechanisms
    ]
    _alter(session, wanted)
    show(
        [{"user": options.name, "mechanism": each, "iterations": options.iterations} for each in mechanisms],
        as_json=options.json,
    )


def _delete(session: Session, options: argparse.Namespace) -> None:
    from confluent_kafka.admin import ScramMechanism, UserScramCredentialDeletion

    mechanisms = options.mechanism
    if not mechanisms:
        _check_allowed(session)
        futures: Any = session.admin.describe_user_scram_credentials([options.name], request_timeout=session.timeout_s)
        (described,) = session.wait_for_all(futures).values()
        mechanisms = [_name(each.mechanism) for each in described.scram_credential_infos]
    _alter(session, [UserScramCredentialDeletion(options.name, ScramMechanism[_upper(each)]) for each in mechanisms])
    if options.json:
        show([{"user": options.name, "mechanism": each, "deleted": True} for each in mechanisms], as_json=True)
    else:
        print_line(f"deleted {options.name} ({', '.join(mechanisms)})")


def _alter(session: Session, wanted: Sequence[UserScramCredentialAlteration]) -> None:
    futures = session.admin.alter_user_scram_credentials(list(wanted), request_timeout=session.timeout_s)
    session.wait_for_all(futures)


def _password(options: argparse.Namespace) -> bytes:
    """Read the password. It is never an argument, as all users of the machine can see these."""
    if options.password_file is None:
        if not sys.stdin.isatty():
            raise UsageError("no terminal to ask for the password: give --password-file")
        try:
            text = getpass.getpass(f"Password of {options.name}: ")
        except EOFError:  # Ctrl-D
            text = ""
    elif str(options.password_file) == "-":
        text = sys.stdin.readline().rstrip("\r\n")
    else:
        try:
            text = re.split("[\r\n]", utf8_text(file_bytes(options.password_file, _PASSWORD_FILE_BYTES)), maxsplit=1)[0]
        except OSError as error:
            raise CommandError(f"{options.password_file}: {error.strerror}") from None
        except UnreadableText as error:
            raise CommandError(f"{options.password_file}:{error.line}: {error.reason}") from None
    if not text:
        raise CommandError("the password is empty")
    return str(text).encode()


def _name(mechanism: object) -> str:
    return str(getattr(mechanism, "name", mechanism)).replace("_", "-")


def _upper(mechanism: str) -> str:
    return mechanism.replace("-", "_")
