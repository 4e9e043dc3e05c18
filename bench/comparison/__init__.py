"""What the benchmark of pybroker beside Apache Kafka is made of: loads, their senders, figures, how they are shown."""
