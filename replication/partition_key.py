"""The name of a partition in requests to controllers and leaders."""

#: Topic id and index.
PartitionKey = tuple[bytes, int]
