"""What the commands that talk to a broker have in common: options, properties, the connection, output, errors."""
