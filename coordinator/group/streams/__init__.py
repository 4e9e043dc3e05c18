"""Streams groups (KIP-1071): applications of Kafka Streams whose tasks the broker assigns.

These are not supported: static members and warm-up tasks; and, as in Apache Kafka 4.4, topology updates and
regular expressions for source topics. Requests with them get Kafka's errors.
"""
