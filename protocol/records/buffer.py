"""What holds bytes of records: what is read, and what is written."""

Buffer = bytes | bytearray | memoryview
