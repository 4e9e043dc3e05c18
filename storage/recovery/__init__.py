"""Load logs from their directories, with recovery after an unclean shutdown."""
