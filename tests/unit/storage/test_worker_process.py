"""Worker: jobs from one pipe, results into another."""

import io
import pickle

import pytest

from storage import errors
from storage.worker_process import LENGTH, pack, serve


def results_of(*jobs):
    """What a worker writes for these jobs, unpacked."""
    written = io.BytesIO()
    serve(io.BytesIO(b"".join(pack(job) for job in jobs)), written)
    found, data = [], written.getvalue()
    while data:
        size = LENGTH.size + LENGTH.unpack_from(data)[0]
        found.append(pickle.loads(data[LENGTH.size : size]))
        data = data[size:]
    return found


class Unportable(Exception):
    """Pickles, and cannot be made again."""

    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


def raise_unportable():
    raise Unportable(1, 2)


def raise_unpicklable():
    raise ValueError(lambda: None)


def test_jobs_are_done_in_order_and_errors_are_results_too():
    """A function's exception comes back as it is."""
    first, second, third = results_of((divmod, (7, 2), {}), (int, ("x",), {}), (sorted, ([1, 3],), {"reverse": True}))

    assert first == (True, (3, 1))
    assert second[0] is False
    assert isinstance(second[1], ValueError)
    assert third == (True, [3, 1])


@pytest.mark.parametrize("function", [raise_unportable, raise_unpicklable])
def test_an_error_that_cannot_be_sent_is_told_in_words(function):
    """The worker goes on after it."""
    first, second = results_of((function, (), {}), (abs, (-1,), {}))

    assert first[0] is False
    assert isinstance(first[1], RuntimeError)
    assert str(first[1]).startswith(("Unportable: 1 2", "ValueError: "))
    assert second == (True, 1)


def make_generator():
    return (number for number in range(3))


def test_a_result_that_cannot_be_sent_is_an_error():
    """Open files, generators and the like."""
    ((succeeded, error),) = results_of((make_generator, (), {}))

    assert succeeded is False
    assert "generator" in str(error)


def test_a_torn_job_ends_the_worker():
    """The broker died while it was sending."""
    written = io.BytesIO()
    serve(io.BytesIO(LENGTH.pack(1000)[:5]), written)

    assert written.getvalue() == b""


@pytest.mark.parametrize(
    "error",
    [
        errors.RecordTooLarge(10, 5),
        errors.OutOfOrderSequence(1, 2, 3),
        errors.InvalidTimestamp("late", (errors.RecordError(1, "very"),)),
        errors.LogOffline("/x", "gone"),
        errors.UnknownCodec("7"),
    ],
)
def test_errors_of_the_room_come_back_whole(error):
    """Also those whose constructor takes fields and makes the sentence of them."""
    again = pickle.loads(pickle.dumps(error))

    assert type(error) is type(again)
    assert str(error) == str(again)
    assert vars(error) == vars(again)
