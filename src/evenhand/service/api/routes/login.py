"""Login and logout of the dashboard. The key is kept in a cookie that scripts cannot read.

These routes may change in any version.
"""

from __future__ import annotations

import html
import time
from typing import Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse

from evenhand.errors import AccessError, EvenhandError, FetchError
from evenhand.service.api.context import RequestContext, ServiceContext
from evenhand.service.api.error_handlers import http_status
from evenhand.service.api.routes.dashboard import read_asset
from evenhand.service.auth.access import is_own_page
from evenhand.service.auth.keys import COOKIE, key_id
from evenhand.service.auth.logging import logger
from evenhand.service.auth.oidc import LOGIN_SECONDS, close_session, open_session

router = APIRouter(include_in_schema=False)

MAX_FORM_BYTES = 2_000
"""Maximum size of the login form."""

LOGIN_COOKIE = "evenhand_login"
"""Cookie with the pending login, which is sent when the browser returns from the provider."""


@router.get("/login")
async def get_login_page(context: RequestContext) -> Response:
    """Page that asks for a key."""
    return _login_response(context) if context.settings.service.keys else RedirectResponse("/", 303)


@router.post("/login")
async def log_in(request: Request, context: RequestContext) -> Response:
    """Log in with a key that has the scope read."""
    if not is_own_page(request.headers, context.settings.service.public_url):
        return _login_response(context, "The request came from a page of another site. Enter the key here.", 403)
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM_BYTES:
            return _login_response(context, "This is not a valid key.", 413)
    key = parse_qs(body.decode("latin-1")).get("key", [""])[0].strip()
    try:
        caller = await context.keys.caller(key)
    except AccessError as error:
        return _refusal_page(request, context, error)
    if not caller.is_allowed("read"):
        return _login_response(context, f"The key {caller.id} of {caller.name} lacks the scope read.", 403)
    answer = RedirectResponse("/", 303)
    _set_cookie(answer, request, context, COOKIE, key)
    return answer


@router.get("/login/oidc")
async def begin_login(request: Request, context: RequestContext) -> Response:
    """Redirect the browser to the identity provider."""
    if context.logins is None:
        return _login_response(context, "Log in with a key.", 404)
    try:
        url, cookie = await context.logins.begin(request)
    except FetchError as error:
        return _provider_failed(context, error)
    answer = RedirectResponse(url, 303)
    # Lax, because the browser returns from another site.
    name = _login_cookie(request, context)
    _set_cookie(answer, request, context, name, cookie, max_age=LOGIN_SECONDS, samesite="lax")
    return answer


@router.get("/login/callback")
async def end_login(request: Request, context: RequestContext) -> Response:
    """Process the response of the identity provider, and begin a session if the user has a role."""
    if context.logins is None:
        return _login_response(context, "Log in with a key.", 404)
    logins, name = context.logins, _login_cookie(request, context)
    try:
        identity = await logins.identify(request, request.cookies.get(name, ""))
        seconds = 3600 * logins.config.session_hours
        key = await run_in_threadpool(open_session, context.ledger, identity, seconds, time.time())
        # This replica must know the new key immediately.
        await context.keys.read_again()
    except AccessError as error:
        logger.warning("a login was refused", extra={"about": {"reason": error.message}})
        answer = _refusal_page(request, context, error)
    except EvenhandError as error:
        answer = _provider_failed(context, error)
    else:
        logger.warning("logged in", extra={"about": {"name": identity.name, "role": identity.role, "key": key_id(key)}})
        # A page instead of a redirect, because a browser that comes from another site would omit a strict cookie.
        answer = HTMLResponse(read_asset("welcome.html"))
        _set_cookie(answer, request, context, COOKIE, key, max_age=int(seconds))
    _set_cookie(answer, request, context, name, "", max_age=0, samesite="lax")
    return answer


@router.post("/logout")
async def log_out(request: Request, context: RequestContext) -> Response:
    """End the session, and delete the cookie."""
    key = request.cookies.get(COOKIE, "")
    try:
        caller = await context.keys.caller(key)
        if caller.session:
            await run_in_threadpool(close_session, context.ledger, caller.id, time.time())
    except AccessError:
        pass  # It has ended already.
    answer = RedirectResponse("/login", 303)
    _set_cookie(answer, request, context, COOKIE, "", max_age=0)
    return answer


def _set_cookie(
    answer: Response,
    request: Request,
    context: ServiceContext,
    name: str,
    value: str,
    *,
    max_age: int | None = None,
    samesite: Literal["strict", "lax"] = "strict",
) -> None:
    """Set a cookie that no script can read. With the maximum age 0, the browser deletes it."""
    is_secure = _uses_tls(request, context)
    answer.set_cookie(name, value, max_age, path="/", httponly=True, samesite=samesite, secure=is_secure)


def _login_cookie(request: Request, context: ServiceContext) -> str:
    """Return the name of the login cookie. With TLS, no other host can set it."""
    return f"__Host-{LOGIN_COOKIE}" if _uses_tls(request, context) else LOGIN_COOKIE


def _refusal_page(request: Request, context: ServiceContext, error: AccessError) -> HTMLResponse:
    """Return the page for a login that was refused."""
    refused = context.failures.refusal(error, request.client.host if request.client else "")
    return _login_response(context, f"{refused.message[:1].upper()}{refused.message[1:]}.", http_status(refused))


def _provider_failed(context: ServiceContext, error: EvenhandError) -> HTMLResponse:
    """Build the page for a login that failed because of the provider or the store, and log the error."""
    logger.error("a login failed: %s", error.message)
    if isinstance(error, FetchError):
        return _login_response(
            context, "The identity provider is unavailable or sent an invalid response. Try again later.", 502
        )
    return _login_response(context, "The store is unavailable. Try again later.", 503)


def _uses_tls(request: Request, context: ServiceContext) -> bool:
    """Return whether the browser uses TLS, according to the URL or the header of a proxy."""
    public = (context.settings.service.public_url or "").partition(":")[0]
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    return "https" in (public, request.url.scheme, forwarded)


def _login_response(context: ServiceContext, error: str = "", status: int = 200) -> HTMLResponse:
    message = f'<p class="wrong" role="alert">{html.escape(error)}</p>' if error else ""
    provider = (
        "" if context.logins is None else '<p><a class="button" href="/login/oidc">Log in with your account</a></p>'
    )
    text = read_asset("login.html").decode()
    return HTMLResponse(text.replace("<!--error-->", message).replace("<!--provider-->", provider), status)
