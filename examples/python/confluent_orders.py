"""Write an invoice for each order, exactly once, with confluent-kafka (librdkafka).

pip install confluent-kafka
python confluent_orders.py [localhost:9092]
"""

import json
import os
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
ORDERS = 6


def send_orders() -> None:
    """Write some orders and wait for their acknowledgements."""
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True})
    for number in range(1, ORDERS + 1):
        order = {"number": number, "apples": 2 * number}
        producer.produce("orders", key=f"customer-{number % 3}", value=json.dumps(order), on_delivery=check)
        producer.poll(0)  # calls `check` for acknowledgements that have arrived
    producer.flush()


def check(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def write_invoices() -> None:
    """Read orders as a member of a group.

    A transaction makes an invoice and the commit of its order visible together or not at all.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": BOOTSTRAP,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    producer = Producer({"bootstrap.servers": BOOTSTRAP, "transactional.id": "billing-1"})
    producer.init_transactions()
    consumer.subscribe(["orders"])
    done = 0
    while done < ORDERS:
        messages = consumer.consume(100, timeout=1)
        if not messages:
            continue
        producer.begin_transaction()
        try:
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
                order = json.loads(message.value())
                invoice = {"order": order["number"], "cents": 50 * order["apples"]}
                producer.produce("invoices", key=message.key(), value=json.dumps(invoice), on_delivery=check)
                print(f"{message.key().decode()} owes {invoice['cents']} cents for order {invoice['order']}")
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
            producer.commit_transaction()
        except BaseException:
            producer.abort_transaction()
            raise
        done += len(messages)
    consumer.close()


if __name__ == "__main__":
    send_orders()
    write_invoices()
