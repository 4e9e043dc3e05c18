"""The Kafka wire protocol: bytes <-> values, sans-IO. Theory and rules are in README.md."""
