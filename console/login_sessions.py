"""Login sessions of the console: one for everybody, or one per user of the broker after a login.

The broker authenticates users; the console stores no passwords of its own. It keeps the password of a user in memory
as long as the session lasts, to reconnect to the broker.
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

#: A session ends after this time without a request, and after this time in any case.
_IDLE_S = 30 * 60.0
_LONGEST_S = 12 * 3600.0
_MOST_SESSIONS = 32
#: Concurrent logins: each opens connections, and the broker delays its answer to a wrong password.
_MOST_LOGINS = 4

Login = Callable[[str, str], Sources]
"""Returns the sources of a user, given name and password. Raises Refused, BrokerUnavailable."""


@dataclass(slots=True)
class LoginSession:
    """One login session. `token` is part of each form and other sites cannot read it (protection against CSRF).

    `user` is None if the console has no login.
    """

    sources: Sources
    token: str
    user: str | None = None
    began_at: float = 0.0
    seen_at: float = 0.0
    is_over: bool = False

    def is_due(self, now: float) -> bool:
        """Return whether the session has expired at `now`, a time of the monotonic clock."""
        return now - self.seen_at > _IDLE_S or now - self.began_at > _LONGEST_S


class LoginSessions:
    """All login sessions. `everybody` has the sources for a console without login; else `login` logs users in."""

    def __init__(self, everybody: Sources | None, login: Login | None = None) -> None:
        assert (everybody is None) == (login is not None)
        self._login = login
        self._everybody = LoginSession(everybody, secrets.token_urlsafe(24)) if everybody is not None else None
        #: The token of the login form, for which there is no session yet.
        self.login_token = secrets.token_urlsafe(24)
        self._sessions: dict[str, LoginSession] = {}
        self._changing = threading.Lock()
        self._logins = threading.BoundedSemaphore(_MOST_LOGINS)

    @property
    def needs_login(self) -> bool:
        return self._login is not None

    def find(self, key: str) -> LoginSession | None:
        """Return the session that a browser's cookie names; None if the user has to log in."""
        if self._everybody is not None:
            return self._everybody
        now = time.monotonic()
        with self._changing:
            session = self._sessions.get(key)
            if session is None:
                return None
            if session.is_due(now):
                self._forget(key)
                return None
            session.seen_at = now
            return session

    def remove_expired(self) -> None:
        """Remove expired sessions with their passwords, and close their clients."""
        now = time.monotonic()
        with self._changing:
            due = [key for key, session in self._sessions.items() if session.is_due(now)]
            for key in due:
                self._forget(key)
        if due:
            gc.collect()  # a client of librdkafka and its session refer to each other

    def begin(self, user: str, password: str) -> str:
        """Log a user in and return the session's key, for a cookie. Raises Refused, BrokerUnavailable, TooMany."""
        assert self._login is not None
        if not self._logins.acquire(blocking=False):
            raise TooMany("others are logging in: try again")
        try:
            sources = self._login(user, password)
        finally:
            self._logins.release()
        key, now = secrets.token_urlsafe(32), time.monotonic()
        with self._changing:
            while len(self._sessions) >= _MOST_SESSIONS:  # the session that was idle for longest ends
                self._forget(min(self._sessions, key=lambda each: self._sessions[each].seen_at))
            self._sessions[key] = LoginSession(sources, secrets.token_urlsafe(24), user, now, now)
        return key

    def end(self, key: str) -> None:
        """Remove a session and the user's password."""
        with self._changing:
            self._forget(key)

    def _forget(self, key: str) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            session.is_over = True  # ends its streams of new records
