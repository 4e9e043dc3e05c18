# What the numbers of walk.py are in its compiled twin. The source is walk.py; docs/decisions/compiled-modules.md.
cimport cython
from cpython.array cimport array

@cython.locals(found="unsigned long long", place=Py_ssize_t)
cdef unsigned long long _number(bytes data, Py_ssize_t at, Py_ssize_t stop) except? 0

@cython.locals(
    borders=list, offsets=list, raw="const unsigned char *", available=Py_ssize_t, header_size=Py_ssize_t,
    overhead=Py_ssize_t, not_plain=int, small=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, last_offset_delta="unsigned long long",
    records="unsigned long long", are_single=bint, first="unsigned long long", following="unsigned long long",
    offset="unsigned long long",
)
cpdef walk_batches(bytes data, bint verify)

@cython.locals(
    keys=list, tombstones=list, raw="const unsigned char *", header_size=Py_ssize_t, number=Py_ssize_t, at=Py_ssize_t,
    end=Py_ssize_t, size=Py_ssize_t, more=Py_ssize_t, key_size=Py_ssize_t, value_at=Py_ssize_t,
)
cpdef walk_single(bytes data, list starts, list ends)

@cython.locals(
    before=Py_ssize_t, raw="const unsigned char *", number=Py_ssize_t, length="long long", at=Py_ssize_t, byte="long long",
    end=Py_ssize_t, delta="long long", size="long long", start=Py_ssize_t,
)
cpdef walk_records(
    bytes data, Py_ssize_t position, list keys, list tombstones, list deltas, Py_ssize_t first, Py_ssize_t stop,
    long long expected,
)

@cython.locals(position=Py_ssize_t, length="long long", byte="long long")
cpdef walk_sizes(bytes data, list starts, Py_ssize_t count)

@cython.locals(
    parts=list, raw="const unsigned char *", available=Py_ssize_t, largest="long long", one_byte=list, number=Py_ssize_t,
    start=Py_ssize_t, end=Py_ssize_t, position=Py_ssize_t, delta="long long", after=Py_ssize_t, timestamp="long long",
    changed="long long",
)
cpdef walk_kept(bytes data, list starts, list kept, long long base_before, append_time, base)

@cython.locals(
    slots="long long", stop=Py_ssize_t, low="long long", added=Py_ssize_t, in_a_row=bint, offset="long long",
    number=Py_ssize_t, key=bytes, fingerprint="long long", check="long long", at=Py_ssize_t,
)
cpdef put_keys(keys, offsets, array[long long] table, long long start)

@cython.locals(
    slots="long long", stop=Py_ssize_t, low="long long", known=bytearray, number=Py_ssize_t, key=bytes,
    fingerprint="long long", check="long long", at=Py_ssize_t,
)
cpdef known_keys(keys, array[long long] table)

@cython.locals(
    slots="long long", stop=Py_ssize_t, low="long long", entry=Py_ssize_t, fingerprint="long long", at=Py_ssize_t,
)
cpdef move_keys(array[long long] table, array[long long] larger)

@cython.locals(low="long long", entry=Py_ssize_t)
cpdef flip_marks(array[long long] table, bytearray marks, int bits)
