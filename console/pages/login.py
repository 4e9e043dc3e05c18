"""Login and logout of the broker's users."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from console.errors import NotFound, Refused, TooMany
from console.forms import Form, check_token, read_form
from console.login_sessions import LoginSessions
from console.pages.page import page
from console.protection import cookie_name


def show(request: Request) -> Response:
    """GET /login?next="""
    return _page(request, "", local_path(request.query_params.get("next", "/")))


async def enter(request: Request) -> Response:
    """POST /login: user, password, next"""
    sessions = _sessions(request)
    form = await read_form(request)
    check_token(form, sessions.login_token)
    target = local_path(form.text("next"))
    try:
        key = await run_in_threadpool(sessions.begin, form.text("user"), form.text("password"))
    except (Refused, TooMany) as problem:
        return _page(request, str(problem), target, user=form.text("user"))
    answer = RedirectResponse(target, 303)
    # not Secure: the console serves HTTP, on loopback only
    answer.set_cookie(cookie_name(request.headers["host"]), key, httponly=True, samesite="strict", path="/")
    return answer


def leave(request: Request, _: Form) -> Response:
    """POST /logout"""
    name = cookie_name(request.headers["host"])
    _sessions(request).end(request.cookies.get(name, ""))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(name, path="/", httponly=True, samesite="strict")
    return answer


def local_path(path: str) -> str:
    """Return the path if it is a page of the console, else the first page: `next` comes from an untrusted URL."""
    is_ours = path.startswith("/") and not path.startswith(("//", "/login", "/logout")) and "\\" not in path
    return path if is_ours and path.isprintable() else "/"


def _page(request: Request, problem: str, target: str, user: str = "") -> Response:
    sessions = _sessions(request)
    # status 200, because browsers log other codes as errors in their console
    return page(request, "login.html", problem=problem, next=target, user=user, token=sessions.login_token)


def _sessions(request: Request) -> LoginSessions:
    sessions: LoginSessions = request.app.state.login_sessions
    if not sessions.needs_login:
        raise NotFound("the console has no login")
    return sessions
