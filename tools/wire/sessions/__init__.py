"""Sessions of clients: kept from the wire, shown, played again."""
