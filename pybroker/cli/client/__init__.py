"""The parts that commands for clients share: options, properties, the connection, output, errors."""
