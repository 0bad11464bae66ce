"""What the routes of guarded generators share: which one is meant, and what is answered where there is no item."""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.service.context import Context
from evenhand.service.disclosure import headers, refusal
from evenhand.service.faults import Fault
from evenhand.service.generators import Makes
from evenhand.service.guards import Request, Served, ServedGuard

ROUTES: dict[Makes, str] = {"image": "/v1/images/generations", "text": "/v1/chat/completions"}


def guard_for(here: Context, model: str | None, makes: Makes) -> ServedGuard:
    """The guard that a request means.

    Raises:
        Fault: there is none of that name, or it makes other things, or the request names none and there are several.
    """
    able = [guard for guard in here.guards.values() if guard.makes in (makes, "either")]
    if model is None:
        if len(able) == 1:
            return able[0]
        raise Fault(400, "the request names no model", code="model", mend=f"one of: {', '.join(_names(able)) or '-'}")
    for guard in here.guards.values():
        if model in guard.models:
            if guard in able:
                return guard
            where = ROUTES.get(guard.makes)
            raise Fault(
                400,
                f"the model {model!r} does not make this",
                code="model",
                mend=f"ask {where}" if where else "it is there for a gateway's guardrail alone",
            )
    raise Fault(
        404,
        f"there is no model {model[:100]!r}",
        code="model_not_found",
        mend=f"one of: {', '.join(_names(able)) or 'none is served'}",
    )


async def answered(
    guard: ServedGuard, requests: Sequence[Request], seconds: float, *, what: str
) -> tuple[list[Served], int]:
    """Those requests of which there is an item, and how many others there were.

    Raises:
        Fault: there is none at all.
        EvenhandError: nothing was answered, because of it.
    """
    found = await guard.serve(requests, seconds)
    good = [one for one in found if isinstance(one, Served) and one.answer.item is not None]
    if good:
        return good, len(found) - len(good)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    bare = [one for one in found if isinstance(one, Served)]
    answers, numbers = [one.answer for one in bare], [one.number for one in bare]
    if all(one.reason.startswith("no answer came") for one in answers):
        raise Fault(
            504,
            answers[0].reason,
            code="timeout",
            mend="ask again later, or for less",
            headers=headers(answers, numbers),
        )
    raise refusal(answers, numbers, what=what)


def _names(guards: Sequence[ServedGuard]) -> list[str]:
    return [name for guard in guards for name in guard.models]
