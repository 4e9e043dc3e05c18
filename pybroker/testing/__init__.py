"""A broker for the tests of one's own code: `with Broker() as broker: connect(broker.bootstrap_servers)`.

It is a process of its own, on any free port of loopback, with its data in a temporary directory. Nothing of it is
imported here, so a project may have modules of whatever names. docs/reference/testing.md
"""

from pybroker.testing.broker import Broker
from pybroker.testing.errors import BrokerError

__all__ = ["Broker", "BrokerError"]
