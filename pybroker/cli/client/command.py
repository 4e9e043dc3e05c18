"""Run a command line. Exit codes: 0 done, 1 an error of the broker or the network, 2 a bad command line."""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence
from importlib.util import find_spec

from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.exit_codes import INTERRUPTED, drop_output
from pybroker.cli.terminal_escape import escape_controls

_HOW_TO_INSTALL = "pip install '.[client]' in the folder of pybroker's sources"


def run(parser: ClientParser, arguments: Sequence[str], wrong_line_errors: Container[int | None] = ()) -> int:
    """Run the command line, and return the exit code. An error is one line on standard error.

    Errors of the broker with the codes `wrong_line_errors` count as those of the command line.
    """
    options = parser.parse(arguments)
    if find_spec("confluent_kafka") is None:
        return _refuse(parser, f"it needs a client: {_HOW_TO_INSTALL}", 1)
    from confluent_kafka import KafkaException  # imported late: it takes half the time of a command line that is wrong

    from pybroker.cli.client.connection import connection_of
    from pybroker.cli.client.session import Session, failed

    try:
        options.run(Session(connection_of(options)), options)
        sys.stdout.flush()
    except UsageError as error:
        return _refuse(parser, str(error), 2)
    except CommandError as error:
        return _refuse(parser, str(error), 2 if error.error_code in wrong_line_errors else 1)
    except KafkaException as error:
        return _refuse(parser, str(failed(error)), 1)
    except ModuleNotFoundError as error:  # kafka-python, which some commands need
        return _refuse(parser, f"it needs {error.name}: {_HOW_TO_INSTALL}", 1)
    except ValueError as error:  # from the client library, which checks names and numbers itself
        return _refuse(parser, str(error), 2)
    except KeyboardInterrupt:
        return _refuse(parser, "interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader closed the output: no error at the interpreter's last flush
        drop_output()
    return 0


def _refuse(parser: ClientParser, line: str, code: int) -> int:
    print(f"{parser.prog}: {escape_controls(line)}", file=sys.stderr)
    return code
