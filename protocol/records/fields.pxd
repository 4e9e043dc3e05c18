# What the numbers of fields.py are in its compiled twin. The source is fields.py; docs/decisions/compiled-modules.md.
cimport cython
from cpython.array cimport array

@cython.locals(
    available=Py_ssize_t, room=Py_ssize_t, least=Py_ssize_t, length_bits=int, time_bits=int, looked=Py_ssize_t, seen=int,
    number="long long", at=Py_ssize_t, end=Py_ssize_t, timestamp="long long", delta="long long", offset="long long", key_at=Py_ssize_t,
    key_end=Py_ssize_t, value_at=Py_ssize_t, value_end=Py_ssize_t, mark=int,
)
cpdef walk_fields(
    bytes data, Py_ssize_t position, Py_ssize_t stop, Py_ssize_t count, long long start, long long behind,
    long long base_offset, long long base_timestamp, bint is_append_time, array[long long] offsets, array[long long] timestamps,
    array[int] borders, bytearray marks, Py_ssize_t taken, Py_ssize_t shift, bint with_fields,
)

@cython.locals(number="long long", bits=int, byte="long long")
cdef (long long, Py_ssize_t) _longer(bytes data, Py_ssize_t at, long long low, int most_bits) except *
