"""The parts of the comparison of pybroker and Apache Kafka: loads, load generators, figures, tables and pictures."""
