"""Share-partitions (KIP-932): which records of a partition a share group has been given, and who has them."""
