"""Count the apples that each customer has ordered, with Quix Streams; runs until Ctrl-C.

    pip install quixstreams
    python totals.py [localhost:9092]

One of the programs in ../python writes the orders. The totals survive a restart: they are in a local store and in a
changelog topic of the broker.
"""

import os
import sys
from typing import Any

from quixstreams import Application, State

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")


def add(order: dict[str, Any], state: State) -> dict[str, int]:
    """Return the total of the customer in the record's key."""
    apples = state.get("apples", 0) + order["apples"]
    state.set("apples", apples)
    return {"apples": apples}


def main() -> None:
    app = Application(
        broker_address=BOOTSTRAP,
        consumer_group="totals",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
    )
    orders = app.topic("orders", key_deserializer="str", value_deserializer="json")
    totals = app.topic("totals", key_serializer="str", value_serializer="json")
    app.dataframe(orders).apply(add, stateful=True).print().to_topic(totals)
    app.run()


if __name__ == "__main__":
    main()
