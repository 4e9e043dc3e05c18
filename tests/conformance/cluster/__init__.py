"""Members and a broker of Apache Kafka in one cluster, which the tests of a run share."""
