"""Fields of messages that kafka-python does not have (messages.py), as it describes those that it has."""
