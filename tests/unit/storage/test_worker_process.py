"""The worker process: jobs from one pipe, results to another."""

import io
import pickle

import pytest

from storage import errors
from storage.worker_process import LENGTH, pack, serve


def results_of(*jobs):
    """Return the unpacked results of a worker for these jobs."""
    written = io.BytesIO()
    serve(io.BytesIO(b"".join(pack(job) for job in jobs)), written)
    found, data = [], written.getvalue()
    while data:
        size = LENGTH.size + LENGTH.unpack_from(data)[0]
        found.append(pickle.loads(data[LENGTH.size : size]))
        data = data[size:]
    return found


class Unportable(Exception):
    """Can be pickled but not unpickled."""

    def __init__(self, first, second):
        super().__init__(f"{first} {second}")


def raise_unportable():
    raise Unportable(1, 2)


def raise_unpicklable():
    raise ValueError(lambda: None)


def test_jobs_are_done_in_order_and_errors_are_results_too():
    """An exception of the function is returned as it is."""
    first, second, third = results_of((divmod, (7, 2), {}), (int, ("x",), {}), (sorted, ([1, 3],), {"reverse": True}))

    assert first == (True, (3, 1))
    assert second[0] is False
    assert isinstance(second[1], ValueError)
    assert third == (True, [3, 1])


@pytest.mark.parametrize("function", [raise_unportable, raise_unpicklable])
def test_error_that_cannot_be_pickled_is_sent_as_text(function):
    """The worker continues after it."""
    first, second = results_of((function, (), {}), (abs, (-1,), {}))

    assert first[0] is False
    assert isinstance(first[1], RuntimeError)
    assert str(first[1]).startswith(("Unportable: 1 2", "ValueError: "))
    assert second == (True, 1)


def make_generator():
    return (number for number in range(3))


def test_result_that_cannot_be_pickled_is_an_error():
    """For example open files and generators."""
    ((succeeded, error),) = results_of((make_generator, (), {}))

    assert succeeded is False
    assert "generator" in str(error)


def test_incomplete_job_ends_the_worker():
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
def test_storage_errors_keep_their_fields(error):
    """Some constructors build the message from fields."""
    again = pickle.loads(pickle.dumps(error))

    assert type(error) is type(again)
    assert str(error) == str(again)
    assert vars(error) == vars(again)
