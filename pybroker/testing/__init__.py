"""Start a broker in the tests of your own code: `with Broker() as broker: connect(broker.bootstrap_servers)`.

The broker is a separate process on a free loopback port, with its data in a temporary directory. `Cluster` is several
brokers under a controller. This package imports nothing of the engine, so the modules of your project may have any
names. See docs/reference/testing.md.
"""

from pybroker.testing.broker import Broker
from pybroker.testing.cluster import Cluster
from pybroker.testing.errors import BrokerError

__all__ = ["Broker", "BrokerError", "Cluster"]
