"""Write orders and read them as a group that commits its offsets, with kafka-python.

pip install kafka-python
python kafka_python_orders.py [localhost:9092]
"""

import json
import os
import sys

from kafka import KafkaConsumer, KafkaProducer

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
ORDERS = 6


def send_orders() -> None:
    """Write some orders; `get` raises an exception if one was not written."""
    producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, acks="all")
    sent = []
    for number in range(1, ORDERS + 1):
        order = {"number": number, "apples": 2 * number}
        sent.append(producer.send("orders", key=b"customer-%d" % (number % 3), value=json.dumps(order).encode()))
    for each in sent:
        each.get(timeout=30)
    producer.close()


def pack_orders() -> None:
    """Read orders as a member of a group and commit each after it is packed, so that a restart continues behind it."""
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=BOOTSTRAP,
        group_id="packing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    for done, record in enumerate(consumer, 1):
        order = json.loads(record.value)
        print(f"packed order {order['number']}: {order['apples']} apples for {record.key.decode()}")
        consumer.commit()
        if done == ORDERS:
            break
    consumer.close()


if __name__ == "__main__":
    send_orders()
    pack_orders()
