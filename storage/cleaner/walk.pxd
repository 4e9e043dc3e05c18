# What the numbers of walk.py are in its compiled twin. The source is walk.py; docs/decisions/compiled-modules.md.
cimport cython
from cpython.array cimport array

@cython.locals(found="unsigned long long", place=Py_ssize_t)
cdef unsigned long long _number(bytes data, Py_ssize_t at, Py_ssize_t stop) except? 0

@cython.locals(
    borders=list, offsets=list, available=Py_ssize_t, header_size=Py_ssize_t, overhead=Py_ssize_t, not_plain=int,
    small=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t, last_offset_delta="unsigned long long",
    records="unsigned long long", are_single=bint, first="unsigned long long", following="unsigned long long",
    offset="unsigned long long",
)
cpdef walk_batches(bytes data, bint verify)

@cython.locals(
    keys=list, tombstones=list, header_size=Py_ssize_t, number=Py_ssize_t, at=Py_ssize_t, end=Py_ssize_t,
    size=Py_ssize_t, more=Py_ssize_t, key_size=Py_ssize_t, value_at=Py_ssize_t,
)
cpdef walk_single(bytes data, list starts, list ends)

@cython.locals(
    before=Py_ssize_t, number=Py_ssize_t, length="long long", at=Py_ssize_t, byte="long long", end=Py_ssize_t, delta="long long",
    size="long long", start=Py_ssize_t,
)
cpdef walk_records(
    bytes data, Py_ssize_t position, list keys, list tombstones, list deltas, Py_ssize_t first, Py_ssize_t stop,
    long long expected,
)

@cython.locals(position=Py_ssize_t, length="long long", byte="long long")
cpdef walk_sizes(bytes data, list starts, Py_ssize_t count)

@cython.locals(
    parts=list, largest="long long", one_byte=list, number=Py_ssize_t, start=Py_ssize_t, end=Py_ssize_t, position=Py_ssize_t,
    delta="long long", after=Py_ssize_t, timestamp="long long", changed="long long",
)
cpdef walk_kept(bytes data, list starts, list kept, long long base_before, append_time, base)

@cython.locals(slots=Py_ssize_t, added=Py_ssize_t, key=bytes, offset="long long", fingerprint=Py_hash_t, slot=Py_ssize_t)
cpdef put_keys(found, array[long long] fingerprints, array[unsigned int] places, long long start)

@cython.locals(slots=Py_ssize_t, known=bytearray, key=bytes, fingerprint=Py_hash_t, slot=Py_ssize_t)
cpdef known_keys(keys, array[long long] fingerprints)
