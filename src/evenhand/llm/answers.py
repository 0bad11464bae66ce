"""Read the outcome of a reply: a choice, a number, a position in a ranking, or the reason for a missing outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from evenhand.llm.answer_kinds import is_refusal, number_parser, ranking_parser
from evenhand.llm.file import AnswerFormat, ScreeningFile
from evenhand.models.answer_store import ModelReply, Tokens
from evenhand.models.language.chat_answers import fold, read_answer, read_choice
from evenhand.models.language.services import ChatService, ContentRefusedError, content_text, is_refused, read_usage

OutcomeKind: TypeAlias = Literal["choice", "refused", "unreadable", "cut off", "failed"]

TOP_TOKENS = 20
"""Number of most likely tokens requested with their probabilities."""

LEAST_MASS = 0.5
"""Minimum total probability of the choices as the first token. Answers below it are unreadable."""


class ChatOutcome(NamedTuple):
    """The outcome of an answer.

    Attributes:
        kind: Type of the answer; only ``choice`` is a decision.
        value: 1 for the favourable choice and 0 for others, its probability, the number, or the place scaled from 0
            (last) to 1 (first). Without a decision: the value of refused answers. NaN if excluded.
        label: Choice, number, or order of the candidates, such as ``2,1,3``.
        text: Text of the answer.
        tokens: Input and output tokens.
    """

    kind: OutcomeKind
    value: float
    label: str
    text: str
    tokens: tuple[int, int] = (0, 0)


def parse_reply(answer: Mapping[str, Any], chat: ChatService) -> ModelReply:
    """Parse a completion.

    Raises:
        ModelError: The answer is not a completion.
    """
    choice = chat.choice_of(answer)
    message, finish = choice["message"], str(choice.get("finish_reason") or "")
    refusal = message.get("refusal")
    text = refusal if isinstance(refusal, str) and refusal else content_text(message.get("content"))
    return ModelReply(
        (text or "").encode(errors="replace").decode(),  # an unpaired surrogate cannot be encoded
        is_refused(choice),
        finish,
        _first_chances(choice.get("logprobs")),
        read_tokens(answer),
    )


def read_tokens(answer: Mapping[str, Any]) -> Tokens | None:
    """Read the input and output token counts of an answer. None if either is missing."""
    tokens_in, tokens_out = (read_usage(answer).get(name) for name in ("prompt_tokens", "completion_tokens"))
    if type(tokens_in) is not int or type(tokens_out) is not int or min(tokens_in, tokens_out) < 0:
        return None
    return tokens_in, tokens_out


def refusal_reply(error: ContentRefusedError) -> ModelReply:
    """Convert a request rejected by a content filter to a reply."""
    return ModelReply(error.message, True, "content_filter", {}, None)


def _first_chances(content: Any) -> dict[str, float]:
    """Read the first token's log-probabilities. Empty if the format is invalid."""
    try:
        token = content["content"][0]
        logprobs = {str(entry["token"]): float(entry["logprob"]) for entry in [token, *token["top_logprobs"]]}
    except (TypeError, KeyError, IndexError, ValueError):
        return {}
    # A probability above 1 is invalid unless it is a rounding error.
    return logprobs if all(chance < 0.01 for chance in logprobs.values()) else {}


def read_outcome(reply: ModelReply, file: ScreeningFile, place: int = 1) -> ChatOutcome:
    """Read the outcome of a reply.

    Args:
        reply: Reply of the service.
        file: Model file with the rules for parsing answers.
        place: Number of the candidate, for rankings.
    """
    form = file.answers
    tokens = reply.tokens or (0, 0)
    value = None if reply.refused else _read_value(reply, form, place)
    if value is not None:
        return ChatOutcome("choice", value[1], value[0], reply.text, tokens)
    refused = reply.refused or is_refusal(reply.text, form.refusals, entry=form.entry)
    kind: OutcomeKind = "refused" if refused else "cut off" if reply.finish == "length" else "unreadable"
    return ChatOutcome(kind, math.nan if file.refused == "excluded" else form.worst, "", reply.text, tokens)


def _read_value(reply: ModelReply, form: AnswerFormat, place: int) -> tuple[str, float] | None:
    """Read the label and value of a reply. None without a label."""
    if form.read == "logprobs":
        return _read_chances(reply.chances, form)
    text, cut_off = reply.text, reply.finish == "length"
    if form.read == "number":
        assert form.range is not None
        number = read_answer(text, number_parser(*form.range), entry=form.entry, cut_off=cut_off)
        # The next token may continue the number.
        return None if number is None or (cut_off and text[-1:].isalnum()) else (f"{number:.15g}", number)
    if form.read == "ranking":
        many = int(form.candidates or 0)
        order = read_answer(text, ranking_parser(many), entry=form.entry, cut_off=cut_off)
        return None if order is None else (",".join(map(str, order)), 1 - order.index(place) / (many - 1))
    choice = read_choice(text, form.choices, entry=form.entry, json_only=form.read == "json", cut_off=cut_off)
    return None if choice is None else (choice, float(choice == form.favourable))


def _read_chances(chances: Mapping[str, float], form: AnswerFormat) -> tuple[str, float] | None:
    """Compute the most likely choice and the probability of the favourable one, from the first token.

    A token counts towards a choice only if it is the beginning of exactly one choice.
    """
    mass = dict.fromkeys(form.choices, 0.0)
    for token, chance in chances.items():
        start = fold(token)
        fitting = [choice for choice in form.choices if start and fold(choice).startswith(start)]
        if len(fitting) == 1:
            mass[fitting[0]] += math.exp(chance)
    total = sum(mass.values())
    if total < LEAST_MASS:
        return None
    return max(mass, key=mass.__getitem__), mass[str(form.favourable)] / total
