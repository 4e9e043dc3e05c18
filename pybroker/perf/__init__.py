"""Measure the speed of a cluster with load from the client library. Output has the form of Apache Kafka's tools."""
