"""Who looks at the console: everybody, or users of the broker after a login, each with a client of their own.

A user is whoever the broker takes for one: the console knows no passwords, and keeps one as long as its user's visit
lasts, for connections that break.
"""

from __future__ import annotations

import gc
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from console.errors import TooMany
from console.sources import Sources

#: Without a request, and at all.
_IDLE_S = 30 * 60.0
_LONGEST_S = 12 * 3600.0
_MOST_VISITS = 32
#: Logins at a time: each makes connections, and the broker takes its time over a wrong password.
_MOST_LOGINS = 4

Login = Callable[[str, str], Sources]
"""What a user may see, by name and password. Raises Refused, Unanswered."""


@dataclass(slots=True)
class Visit:
    """`token` stands in each form, and nowhere that another site could read: who sends it has seen the page.

    `user` is None where nobody has to log in.
    """

    sources: Sources
    token: str
    user: str | None = None
    began_at: float = 0.0
    seen_at: float = 0.0
    is_over: bool = False

    def is_due(self, now: float) -> bool:
        """Whether its time is over, on the monotonic clock."""
        return now - self.seen_at > _IDLE_S or now - self.began_at > _LONGEST_S


class Visits:
    """All there are. `everybody` is what is shown without a login; `login` is there where one is needed."""

    def __init__(self, everybody: Sources | None, login: Login | None = None) -> None:
        assert (everybody is None) == (login is not None)
        self._login = login
        self._everybody = Visit(everybody, secrets.token_urlsafe(24)) if everybody is not None else None
        #: Of the form that one logs in by: nobody is anybody yet.
        self.login_token = secrets.token_urlsafe(24)
        self._visits: dict[str, Visit] = {}
        self._changing = threading.Lock()
        self._logins = threading.BoundedSemaphore(_MOST_LOGINS)

    @property
    def needs_login(self) -> bool:
        return self._login is not None

    def find(self, key: str) -> Visit | None:
        """The visit that a browser's cookie names; None where its user has to log in."""
        if self._everybody is not None:
            return self._everybody
        now = time.monotonic()
        with self._changing:
            visit = self._visits.get(key)
            if visit is None:
                return None
            if visit.is_due(now):
                self._forget(key)
                return None
            visit.seen_at = now
            return visit

    def forget_due(self) -> None:
        """Forget visits whose time is over: their passwords are kept, and their clients connected, no longer."""
        now = time.monotonic()
        with self._changing:
            due = [key for key, visit in self._visits.items() if visit.is_due(now)]
            for key in due:
                self._forget(key)
        if due:
            gc.collect()  # a client of librdkafka and its session know each other

    def begin(self, user: str, password: str) -> str:
        """A visit's key, for a cookie. Raises Refused, Unanswered, and TooMany while others log in."""
        assert self._login is not None
        if not self._logins.acquire(blocking=False):
            raise TooMany("others are logging in: try again")
        try:
            sources = self._login(user, password)
        finally:
            self._logins.release()
        key, now = secrets.token_urlsafe(32), time.monotonic()
        with self._changing:
            while len(self._visits) >= _MOST_VISITS:  # who has not been seen for longest logs in again
                self._forget(min(self._visits, key=lambda each: self._visits[each].seen_at))
            self._visits[key] = Visit(sources, secrets.token_urlsafe(24), user, now, now)
        return key

    def end(self, key: str) -> None:
        """Forget a visit, and with it the user's password."""
        with self._changing:
            self._forget(key)

    def _forget(self, key: str) -> None:
        visit = self._visits.pop(key, None)
        if visit is not None:
            visit.is_over = True  # what follows a partition for it ends
