"""Streams groups (KIP-1071): applications of Kafka Streams whose tasks the broker assigns.

What Apache Kafka 4.3 does not serve yet is not served here: static members, warm-up tasks, offsets of tasks, topologies
that change, and regular expressions for source topics. Each is refused as Kafka refuses it.
"""
