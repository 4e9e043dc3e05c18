"""A directory that looks like an installation of Apache Kafka, whose scripts run pybroker (`pybroker kafka-home DIR`).

Test suites of clients start a broker by the scripts of such a directory, and so do Testcontainers' modules in an image.
"""
