"""A directory that looks like an installation of Apache Kafka, whose scripts run pybroker (`pybroker kafka-home DIR`).

Clients' test suites, and Testcontainers' modules in an image, start a broker with the scripts of such a directory.
"""
