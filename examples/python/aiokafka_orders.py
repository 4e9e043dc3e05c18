"""Write an invoice for each order, exactly once, with aiokafka.

pip install aiokafka
python aiokafka_orders.py [localhost:9092]
"""

import asyncio
import json
import os
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

BOOTSTRAP = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
ORDERS = 6
GROUP = "billing"


async def send_orders() -> None:
    """Write some orders and wait for their acknowledgements."""
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, enable_idempotence=True) as producer:
        sent = [
            await producer.send(
                "orders",
                key=f"customer-{number % 3}".encode(),
                value=json.dumps({"number": number, "apples": 2 * number}).encode(),
            )
            for number in range(1, ORDERS + 1)
        ]
        await asyncio.gather(*sent)


async def write_invoices() -> None:
    """Read orders as a member of a group.

    A transaction makes an invoice and the commit of its order visible together or not at all.
    """
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=BOOTSTRAP,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, transactional_id="billing-1")
    async with consumer, producer:
        done = 0
        while done < ORDERS:
            by_partition = await consumer.getmany(timeout_ms=1000)
            if not by_partition:
                continue
            async with producer.transaction():  # commits at its end, aborts on an exception
                for records in by_partition.values():
                    for record in records:
                        order = json.loads(record.value)
                        invoice = {"order": order["number"], "cents": 50 * order["apples"]}
                        await producer.send("invoices", key=record.key, value=json.dumps(invoice).encode())
                        print(f"{record.key.decode()} owes {invoice['cents']} cents for order {invoice['order']}")
                        done += 1
                positions = {partition: records[-1].offset + 1 for partition, records in by_partition.items()}
                await producer.send_offsets_to_transaction(positions, GROUP)


async def main() -> None:
    await send_orders()
    await write_invoices()


if __name__ == "__main__":
    asyncio.run(main())
