"""What a model said, and what it means: a choice, a number, a place, or none of these for a reason that is counted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from evenhand.models.language.file import AnswerFormat, ScreeningFile
from evenhand.schema.words import folded
from evenhand.services import ChatService, ContentRefusedError, content_text, extract_answer, plain_reply, read_usage

OutcomeKind: TypeAlias = Literal["choice", "refused", "unreadable", "cut off", "failed"]

NAN = float("nan")

TOP_TOKENS = 20
"""Tokens whose chances are asked for."""

LEAST_MASS = 0.5
"""The choices together must have at least this chance as the first token, else the answer is unreadable."""

_DECLINES = re.compile(
    r"(?:(?:i'm sorry|i am sorry|sorry|i apologi[sz]e|unfortunately)\W*)?(?:but\W*)?"
    r"(?:as an ai|i'm (?:unable|not able)|i (?:can't|cannot|can not|am unable|am not able|won't|will not|decline))\b",
    re.IGNORECASE,
)
"""How answers begin that decline."""

_LABEL = re.compile(
    r"(?:(?:my |the |final )*(?:answer|decision|verdict|score|rating|ranking))\s*(?::|is)\s*", re.IGNORECASE
)
"""What may stand before the answer on its line."""


class ModelReply(NamedTuple):
    """What a service answered, as it is kept.

    Attributes:
        text: what the model said, or why it declines.
        refused: whether it declines, as the service says.
        finish: why it ended, such as ``stop`` or ``length``.
        chances: log-probabilities of the first token, by token; empty where none were asked for.
        tokens: read and written; None where the service does not say.
    """

    text: str
    refused: bool
    finish: str
    chances: dict[str, float]
    tokens: tuple[int, int] | None


class ChatOutcome(NamedTuple):
    """What an answer means.

    Attributes:
        kind: what it is; all but ``choice`` give no decision of the model.
        value: 1 for the favourable choice and 0 for others, its chance, the number, or the place scaled from 0 (last)
            to 1 (first); as refused answers count where the model gave none. NaN: left out.
        label: the choice, the number, or the order of the candidates: ``2,1,3``.
        text: what the model said.
        tokens: read and written.
    """

    kind: OutcomeKind
    value: float
    label: str
    text: str
    tokens: tuple[int, int] = (0, 0)


def parse_reply(answer: Mapping[str, Any], chat: ChatService) -> ModelReply:
    """Return what a completion says.

    Raises:
        ModelError: it is no completion.
    """
    choice = chat.choice_of(answer)
    message, finish = choice["message"], str(choice.get("finish_reason") or "")
    refusal = message.get("refusal")
    text = refusal if isinstance(refusal, str) and refusal else content_text(message.get("content"))
    usage = read_usage(answer)
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    told = all(isinstance(count, int) and count >= 0 for count in counts)
    return ModelReply(
        (text or "").encode(errors="replace").decode(),  # half a surrogate pair could not be written anywhere
        bool(refusal) or finish == "content_filter",
        finish,
        _first_chances(choice.get("logprobs")),
        (int(counts[0] or 0), int(counts[1] or 0)) if told else None,
    )


def refusal_reply(error: ContentRefusedError) -> ModelReply:
    """Return the reply that a service gives by refusing the request for its content."""
    return ModelReply(error.message, True, "content_filter", {}, (0, 0))


def _first_chances(found: Any) -> dict[str, float]:
    """Return the log-probabilities of the first token; nothing where they are not as the format says."""
    try:
        first = found["content"][0]
        told = {str(one["token"]): float(one["logprob"]) for one in [first, *first["top_logprobs"]]}
    except (TypeError, KeyError, IndexError, ValueError):
        return {}
    # A chance above 1 is none, but for rounding.
    return told if all(chance < 0.01 for chance in told.values()) else {}


def read_outcome(reply: ModelReply, file: ScreeningFile, place: int = 1) -> ChatOutcome:
    """Return what a reply means.

    A choice, number or ranking counts only if it is the whole answer or its last line, never if it is found somewhere
    in it: "I would not say yes" is not a yes.

    Args:
        reply: what the model said.
        file: how answers are read, and how refused ones count.
        place: of the candidate that is asked about, in a ranking.
    """
    form = file.answers
    tokens = reply.tokens or (0, 0)
    if not reply.refused:
        if form.read == "logprobs":
            found = _read_chances(reply.chances, form)
        else:
            found = next((one for line in _lines(reply, form) if (one := _read_line(line, form, place))), None)
        if found is not None:
            return ChatOutcome("choice", found[1], found[0], reply.text, tokens)
    declines = reply.refused or _declines(reply.text, form)
    kind: OutcomeKind = "refused" if declines else "cut off" if reply.finish == "length" else "unreadable"
    return ChatOutcome(kind, NAN if file.refused == "excluded" else form.worst, "", reply.text, tokens)


def _declines(text: str, form: AnswerFormat) -> bool:
    said = plain_reply(text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    own = any(said.casefold().startswith(phrase.casefold()) for phrase in form.refusals)
    return own or _DECLINES.match(said) is not None


def _lines(reply: ModelReply, form: AnswerFormat) -> list[str]:
    """Return what may be the answer: all of it, and its last line unless that was cut off."""
    whole = plain_reply(reply.text)
    if form.read == "json":
        said = [whole, whole[whole.rfind("{") :]] if "{" in whole else []
        return [found for one in said if _is_object(one) and (found := extract_answer(one, form.entry)) is not None]
    last = [] if reply.finish == "length" else [(whole.splitlines() or [""])[-1]]
    return [whole, *last]


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(plain_reply(text)), dict)
    except (ValueError, RecursionError):
        return False


def _read_line(line: str, form: AnswerFormat, place: int) -> tuple[str, float] | None:
    """Return the label and the value of an answer; None if this is none."""
    plain = line.strip().strip("*_`\"' ").rstrip(".!")
    if label := _LABEL.match(plain):
        plain = plain[label.end() :]
    plain = plain.strip("*_`\"' ").rstrip(".!")
    if form.read == "number":
        assert form.range is not None
        number = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)(?:\s*/\s*(\d+))?", plain)
        if number is None or (number[2] and float(number[2]) != form.range[1]):
            return None
        value = float(number[1])
        return (number[1], value) if form.range[0] <= value <= form.range[1] else None
    if form.read == "ranking":
        return _read_ranking(plain, int(form.candidates or 0), place)
    # Exactly first: choices such as "A" and "A*" differ in marks that are removed otherwise.
    stages = (
        [choice for choice in form.choices if choice.strip() == line.strip()],
        [choice for choice in form.choices if choice.strip() == plain],
        [choice for choice in form.choices if folded(choice).rstrip(".!") == folded(plain)],
    )
    choice = next((choices[0] for choices in stages if len(choices) == 1), None)
    return None if choice is None else (choice, float(choice == form.favourable))


def _read_ranking(plain: str, many: int, place: int) -> tuple[str, float] | None:
    """Return the order that an answer puts candidates into, and the place of one of them: 1 for first, 0 for last."""
    if not re.fullmatch(r"\[?\s*\d+(?:\s*[,>;\s]\s*\d+)*\s*\]?", plain):
        return None
    order = [int(number) for number in re.findall(r"\d+", plain)]
    if sorted(order) != list(range(1, many + 1)):
        return None
    return ",".join(map(str, order)), 1 - order.index(place) / (many - 1)


def _read_chances(chances: Mapping[str, float], form: AnswerFormat) -> tuple[str, float] | None:
    """Return the likeliest choice and the share of the favourable one, by the chances of the first token.

    A token counts for the one choice that it begins; if it begins several, or none, for none.
    """
    mass = dict.fromkeys(form.choices, 0.0)
    for token, chance in chances.items():
        begins = token.strip().casefold()
        fitting = [choice for choice in form.choices if begins and choice.strip().casefold().startswith(begins)]
        if len(fitting) == 1:
            mass[fitting[0]] += math.exp(chance)
    total = sum(mass.values())
    if total < LEAST_MASS:
        return None
    return max(mass, key=mass.__getitem__), mass[str(form.favourable)] / total
