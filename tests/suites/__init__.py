"""Apache Kafka's own tests of several brokers, run with members of pybroker in the place of its brokers."""
