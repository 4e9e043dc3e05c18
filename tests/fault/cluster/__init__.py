"""Clusters of members and brokers of Apache Kafka under load, while nodes and links fail."""
