"""How quick a cluster is: load through the client library, and figures in the words of Apache Kafka's tools."""
