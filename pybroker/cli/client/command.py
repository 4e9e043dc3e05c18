"""From a command line to an exit code: 0 done, 1 the broker or the network is against it, 2 a bad command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.options import ClientParser
from pybroker.cli.exit_codes import INTERRUPTED, drop_output
from pybroker.cli.terminal_escape import harmless

_HOW_TO_INSTALL = "pip install '.[client]' in the folder of pybroker's sources"


def run(parser: ClientParser, arguments: Sequence[str]) -> int:
    """Do what the command line says. Whatever is wrong is one line on standard error."""
    options = parser.parse(arguments)
    if find_spec("confluent_kafka") is None:
        return _refuse(parser, f"it needs a client: {_HOW_TO_INSTALL}", 1)
    from confluent_kafka import KafkaException  # half the time of a command line that is wrong

    from pybroker.cli.client.connection import connection_of
    from pybroker.cli.client.session import Session, failed

    try:
        options.run(Session(connection_of(options)), options)
        sys.stdout.flush()
    except UsageError as error:
        return _refuse(parser, str(error), 2)
    except CommandError as error:
        return _refuse(parser, str(error), 1)
    except KafkaException as error:
        return _refuse(parser, str(failed(error)), 1)
    except ModuleNotFoundError as error:  # the other client library, of some of the commands
        return _refuse(parser, f"it needs {error.name}: {_HOW_TO_INSTALL}", 1)
    except ValueError as error:  # the client library's, about a name or a number before it asks the broker
        return _refuse(parser, str(error), 2)
    except KeyboardInterrupt:
        return _refuse(parser, "interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever reads has seen enough; nothing is to be said when the interpreter flushes
        drop_output()
    return 0


def _refuse(parser: ClientParser, line: str, code: int) -> int:
    print(f"{parser.prog}: {harmless(line)}", file=sys.stderr)
    return code
