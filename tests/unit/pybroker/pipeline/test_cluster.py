"""Translation of Java client properties for librdkafka."""

from __future__ import annotations

from pybroker.pipeline.cluster import client_properties
from pybroker.pipeline.spec import Kafka


def test_authentication_and_certificates_are_translated() -> None:
    """Properties that only concern reading and writing are left out."""
    login = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="a b";'
    options = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": login,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "",
        "max.poll.records": "7",
    }

    assert client_properties(Kafka("broker:9093", options)) == {
        "bootstrap.servers": "broker:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "ann",
        "sasl.password": "a b",
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }
