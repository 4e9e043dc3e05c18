"""The type of buffers that records are read from and written to."""

Buffer = bytes | bytearray | memoryview
