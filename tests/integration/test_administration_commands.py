"""Commands for requests that librdkafka lacks (quotas, transactions), against a broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from pybroker.testing import Broker
from tests.support.shell import Done, Shell
from tests.support.txn_client import TxnClient

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "transaction.partition.verification.enable": False,  # so that a producer can leave a hanging transaction
}
HALF_A_DAY_MS = 43_200_000


pytestmark = pytest.mark.broker(Broker, SETTINGS)


@pytest.fixture
def client(broker: Broker) -> Iterator[TxnClient]:
    host, _, port = broker.bootstrap_servers.partition(":")
    with TxnClient(host, int(port)) as made:
        yield made


def test_quotas_are_set_listed_and_deleted(sh: Shell) -> None:
    """Quotas of a user, of a user's default client, and of default addresses."""
    whole = sh.good("quotas", "set", "--user", "shop", "producer_byte_rate=1048576", "request_percentage=12.5")
    assert whole.out == "user shop: producer_byte_rate=1048576\nuser shop: request_percentage=12.5\n"
    sh.good("quotas", "set", "--user", "shop", "--client-defaults", "--add-config", "consumer_byte_rate=7")
    sh.good("quotas", "set", "--ip-defaults", "connection_creation_rate=5000")

    def row(key: str, value: float, **entity: str) -> dict[str, object]:
        return {"user": None, "client": None, "ip": None, **entity, "key": key, "value": value}

    of_shop = [row("producer_byte_rate", 1048576, user="shop"), row("request_percentage", 12.5, user="shop")]
    of_clients = row("consumer_byte_rate", 7, user="shop", client="<default>")
    of_addresses = row("connection_creation_rate", 5000, ip="<default>")
    assert sh.good("quotas", "list", "--ip-defaults", "--json").rows == [of_addresses]
    assert sorted(sh.good("quotas", "list", "--user", "shop", "--json").rows, key=str) == sorted(
        [*of_shop, of_clients], key=str
    )
    assert len(sh.good("quotas", "--list", "--json").rows) == 4
    sh.good("quotas", "delete", "--ip-defaults")

    deleted = sh.good("quotas", "delete", "--user", "shop")
    assert deleted.out == "user shop: producer_byte_rate was removed\nuser shop: request_percentage was removed\n"
    assert sh.good("quotas", "list", "--user", "shop", "--json").rows == [of_clients]
    last = sh.good("quotas", "delete", "--user", "shop", "--client-defaults", "consumer_byte_rate", "--json")
    assert last.rows == [{**of_clients, "value": None}]
    assert sh.good("quotas", "list", "--user", "shop").out == ""
    assert sh("quotas", "delete", "--user", "shop") == Done(1, "", "pybroker quotas: user shop: it has no quotas\n")


def test_open_transaction_is_described_and_not_hanging(sh: Shell, broker: Broker) -> None:
    """Its coordinator knows it, so it is not hanging, however old its records are."""
    broker.create_topic("billed")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "billing"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("billed", b"bill", timestamp=int(time.time() * 1000) - HALF_A_DAY_MS)
    assert producer.flush(60) == 0

    (listed,) = sh.good("transactions", "list", "--state", "ongoing", "--json").rows
    assert (listed["transactional_id"], listed["coordinator"], listed["state"]) == ("billing", 1, "ongoing")
    (described,) = sh.good("transactions", "describe", "--transactional-id", "billing", "--json").rows
    assert described["partitions"] == ["billed-0"]
    assert described["producer_id"] == listed["producer_id"]
    assert sh.good("transactions", "find-hanging", "--topic", "billed").out == ""

    producer.commit_transaction(60)
    assert sh.good("transactions", "list", "--producer-id", str(listed["producer_id"]), "--state", "ongoing").out == ""


def test_hanging_transaction_is_found_and_aborted(sh: Shell, broker: Broker, client: TxnClient) -> None:
    """A transaction that no coordinator knows blocks readers of committed records for ever (KIP-664)."""
    broker.create_topic("stuck")
    client.wait_for_coordinator("stuck")
    client.init_with_retries("stuck")
    client.timestamp = int(time.time() * 1000) - HALF_A_DAY_MS
    assert client.write("stuck", ("P0", 0), ("stuck", 0), 0, version=9) == "NONE 0"
    assert client.latest("stuck", committed=True) == 0

    partition = ("--topic", "stuck", "--partition", "0")
    (found,) = sh.good("transactions", "find-hanging", "--json").rows
    assert (found["topic"], found["partition"], found["start_offset"]) == ("stuck", 0, 0)
    assert sh.good("transactions", "find-hanging", *partition, "--max-transaction-timeout", "1440").out == ""
    aborted = sh.good("transactions", "abort", *partition, "--start-offset", "0")
    assert aborted.out == f"aborted the transaction of producer {found['producer_id']} in stuck-0\n"
    assert client.latest("stuck", committed=True) == 2
    assert sh("transactions", "abort", *partition, "--start-offset", "0") == Done(
        1, "", "pybroker transactions: stuck-0: no open transaction begins at offset 0\n"
    )


def test_kafka_python_takes_the_same_properties(sh: Shell, broker: Broker, tmp_path: Path) -> None:
    """`quotas` uses kafka-python, `users` librdkafka."""
    (tmp_path / "password").write_text("letmein\n")
    sh.good("users", "create", "ann", "--password-file", str(tmp_path / "password"))
    words = ("security.protocol=sasl_plaintext", "sasl.mechanism=SCRAM-SHA-512", "sasl.username=ann")
    as_ann = [option for word in (*words, "sasl.password=letmein") for option in ("-X", word)]
    secured = broker.listeners["SASL_PLAINTEXT"]
    assert sh("quotas", "list", "--user", "nobody", *as_ann, server=secured) == Done(0, "", "")


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("quotas set producer_byte_rate=1", 2, "quotas: whose quotas:"),
        ("quotas set --user shop", 2, "quotas: which quotas?"),
        ("quotas set --user shop producer_byte_rate=much", 2, "quotas set: argument KEY=VALUE: 'producer_byte_rate="),
        ("quotas set --user shop rate=1", 1, "quotas: user shop: "),
        ("quotas set --user shop --ip 10.0.0.1 connection_creation_rate=1", 1, "quotas: user shop ip 10.0.0.1: "),
        ("quotas list --user=", 2, "quotas: which user?"),
        ("quotas list --user shop --user-defaults", 2, "quotas list: argument --user-defaults: not allowed"),
        ("transactions describe", 2, "transactions: which transactional id?"),
        ("transactions describe nobodys", 1, "transactions: nobodys: The transactionalId could not be found"),
        ("transactions list --state open", 2, "transactions list: argument --state: invalid choice"),
        ("transactions find-hanging --partition 0", 2, "transactions: --partition is one of a single --topic"),
        ("transactions find-hanging --topic nobodys", 1, "transactions: nobodys: Unknown topic or partition"),
        ("transactions find-hanging --topic billed --partition 7", 1, "transactions: billed: there is no partition 7"),
        ("transactions abort --topic nobodys --partition 0 --start-offset 0", 1, "transactions: nobodys-0: "),
        ("quotas list -X ssl.ca.pem=x", 2, "quotas: ssl.ca.pem: "),
    ],
)
def test_errors_are_one_line(sh: Shell, line: str, code: int, message: str) -> None:
    """The exit code is 2 for a bad command line, 1 for an error of the broker."""
    sh.good("topics", "create", "billed", "--if-not-exists")
    command, *arguments = line.split()
    done = sh(command, *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert done.err.startswith(f"pybroker {message}")
