"""Each API of a broker, in each of its versions: does it answer as Apache Kafka does?"""
