"""Streams groups (KIP-1071): applications of Kafka Streams whose tasks the broker assigns.

As in Apache Kafka 4.3, these are not supported: static members, warm-up tasks, task offsets, topology updates, and
regular expressions for source topics. Requests with them get Kafka's errors.
"""
