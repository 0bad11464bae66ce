"""The dashboard's pages, and logging in: a key becomes a cookie that no script can see."""

from __future__ import annotations

import hashlib
import html
from functools import cache
from importlib.resources import files
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Header, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from evenhand.errors import AccessError
from evenhand.service.context import Context, context_of
from evenhand.service.faults import Fault
from evenhand.service.security import requires
from evenhand.service.security.keys import COOKIE

router = APIRouter(include_in_schema=False)

Here = Annotated[Context, Depends(context_of)]

KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
"""Media types of what the pages consist of."""

LONGEST = 2_000
"""Bytes of what is sent to log in."""


@router.get("/", dependencies=[requires("read")])
async def dashboard() -> HTMLResponse:
    """The dashboard."""
    return _page(_read("index.html").decode())


@router.get("/assets/{name}")
async def asset(name: str, if_none_match: Annotated[str, Header()] = "") -> Response:
    """A style, a script or a drawing of the pages."""
    if name not in _names():
        raise Fault(404, "there is no such file", code="404")
    tag = f'"{hashlib.sha256(_read(name)).hexdigest()[:32]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if tag in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(_read(name), media_type=KINDS[name.rpartition(".")[2]], headers=headers)


@router.get("/login")
async def door(here: Here) -> Response:
    """The page that asks for a key."""
    return _login() if here.settings.service.keys else RedirectResponse("/", 303)


@router.post("/login")
async def enter(request: Request, here: Here) -> Response:
    """Take a key that may read, and keep it in the browser."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return _login("Another site's page sent this. Enter the key here.", 403)
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            return _login("That is no key.", 413)
    key = parse_qs(body.decode("latin-1")).get("key", [""])[0].strip()
    try:
        caller = await here.keys.caller(key)
    except AccessError as error:
        return _login(f"{error.what[:1].upper()}{error.what[1:]}.", 401)
    if not caller.may("read"):
        return _login(f"The key {caller.key} of {caller.name} may not read; it needs the scope read.", 403)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(COOKIE, key, path="/", httponly=True, samesite="strict", secure=_encrypted(request))
    return answer


@router.post("/logout")
async def leave(request: Request) -> Response:
    """Have the browser forget the key."""
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=_encrypted(request))
    return answer


def _encrypted(request: Request) -> bool:
    """Whether the browser came by TLS, as far as is known here; a proxy in front says so in a header."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", "").partition(",")[0].strip())


def _login(error: str = "", status: int = 200) -> HTMLResponse:
    told = f'<p class="wrong" role="alert">{html.escape(error)}</p>' if error else ""
    return _page(_read("login.html").decode().replace("<!--error-->", told), status)


def _page(text: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(text, status)


@cache
def _names() -> frozenset[str]:
    every = (files("evenhand.service.dashboard") / "static").iterdir()
    return frozenset(one.name for one in every if one.name.rpartition(".")[2] in KINDS)


@cache
def _read(name: str) -> bytes:
    return (files("evenhand.service.dashboard") / "static" / name).read_bytes()
