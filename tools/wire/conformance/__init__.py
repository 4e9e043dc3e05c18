"""Test whether a broker answers as Apache Kafka does, for each version of each API."""
