"""State machines of replication, without sockets, files, clocks or randomness."""
