"""Read the values that language models state in their answers.

First, reasoning blocks are stripped. Then the values of JSON objects, ``\\boxed{}`` and tags such as
``<answer>`` are extracted. Finally, markup and punctuation are stripped, and each piece is compared with the choices;
exact matches take precedence. A value must be the whole answer, its last line, or in one of these structures. An answer
with two different values is invalid.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

Parser = Callable[[str], T | None]
"""Function that parses a piece of an answer. It returns None if the piece is not a value."""

DOUBTS = frozenset("?\uff1f¿؟⁇~¬≠!☐✗✘✖❌❎🚫⛔👎")
"""Symbols that question or negate a word. ``!`` negates only the word after it."""

MAX_OBJECTS = 64
"""Maximum number of positions at which a JSON object is parsed."""

MAX_UNCLOSED = 4
"""Maximum number of unclosed objects. After that, the search for JSON objects ends."""

_THOUGHT_NAMES = "think|thinking|thought|thoughts|reasoning|reflection|analysis|scratchpad"
_THOUGHTS = re.compile(
    rf"(?P<start><(?:{_THOUGHT_NAMES})>|\[THINK\]|◁think▷|(?:<\|start\|>assistant)?<\|channel\|>analysis)"
    rf"|</(?:{_THOUGHT_NAMES})>|\[/THINK\]|◁/think▷|<\|channel\|>final\s*<\|message\|>",
    re.IGNORECASE,
)
"""Start or end tag of a reasoning block."""

_STRUCTURE = re.compile(
    r"\\(?:boxed|fbox)\s*\{((?:[^{}]|\{[^{}]{0,200}\}){0,200})\}"
    r"|<(answer|final_answer|final|output|result|verdict|decision|response|score|rating|choice)>(.{0,1000}?)</\2>",
    re.DOTALL | re.IGNORECASE,
)
"""Markup whose content is the answer, at any position."""

_LATEX = re.compile(
    r"\\(?:boxed|fbox|mbox|text|textbf|textit|textrm|textsf|texttt|textsc|emph|underline|math(?:bf|rm|sf|tt|it|bb))"
    r"\s*\{([^{}]*)\}"
)
_EMPHASIS = re.compile(r"(?<![\w*_`])(\*{1,3}|_{1,3}|`)(?![\s*_`])(.{1,200}?)(?<![\s*_`])\1(?![*_`])")
_QUOTED = re.compile(r"^\s*>\s+", re.MULTILINE)
_ESCAPED = re.compile(r"\\([%$&#_{}*`])")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_BRACKETED_TAG = re.compile(r"\[(/?(?:b|i|u|em|strong|code|quote|answer|center))\]", re.IGNORECASE)
_TAG = re.compile(r"</?([A-Za-z][\w:-]*)(?:\s[^<>]*)?/?>|<[|\uff5c][^<>|\uff5c]*[|\uff5c]>")
_STRUCK = frozenset({"s", "del", "strike", "sub", "sup"})
"""Tags whose content is not treated as plain text."""
_INLINE = frozenset(
    re.findall(
        r"\w+",
        "a abbr b bdi big cite code em font i ins kbd label mark q small span strong tt u"
        " bos eos pad start_of_turn end_of_turn",
    )
)
_BLOCK = frozenset({"br", "hr", "p", "li"})
_BOX = re.compile(r"\[\s*\]|\(\s+\)")
_TICKED = re.compile(r"\[[xX✓✔]\]")
_QUOTES = str.maketrans(
    dict.fromkeys("\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}\u02bc\u00b4", "'") | {"\u2212": "-"}
)

_MODIFIER = (
    "my|the|our|final|overall|total|short|meine|die|das|der|endgültige|finale|abschließende|ma|la|le|mon|"
    "définitive|mi|el|su|definitiva|il|mia|o|a|minha"
)
_NOUN = (
    "answer|final|decision|verdict|score|rating|ranking|choice|recommendation|result|conclusion|response|output|grade|"
    "antwort|entscheidung|urteil|bewertung|punktzahl|note|ergebnis|empfehlung|wahl|rangfolge|reihenfolge|"
    "réponse|décision|évaluation|choix|résultat|classement|recommandation|"
    "respuesta|decisión|veredicto|puntuación|calificación|elección|resultado|recomendación|clasificación|"
    "risposta|decisione|punteggio|resposta|decisão|pontuação"
)
_HINT = r"\([^()]*(?:[/,|\u2013-]|\b(?:or|oder|ou|o|of|to|bis|von|sur|de)\b)[^()]*\)"
"""List or range of possible answers in parentheses."""

_LABEL = re.compile(
    r"(?:(?:so|thus|therefore|hence|overall|in conclusion|in summary|daher|deshalb|also|somit|donc|ainsi|"
    r"por lo tanto|entonces|por tanto)\b[\s,:]*)?"
    rf"(?:(?:{_MODIFIER})\s+)*(?:{_NOUN})(?:\s+(?:{_MODIFIER}))*(?:\s*{_HINT})?"
    r"[\s*_`\"')\]]*(?:[:=→]|[=-]>|\s[-\u2013\u2014]\s|\b(?:is|ist|lautet|est|es|è|é)\b\s*:?)"
)
"""Words before an answer on the same line, such as ``My final answer is:``."""

SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f\uff1b])\s*")
_FENCE = re.compile(r"\s*(?:```|~~~)\s*\w*\s*")
_ENUMERATION = re.compile(r"\d+[.)]")


# Pieces of an answer


def remove_thoughts(reply: str) -> str:
    """Remove reasoning blocks, even if a start or end tag is missing."""
    parts: list[str] = []
    at, thinking = 0, False
    for mark in _THOUGHTS.finditer(reply):
        if mark["start"] is None:
            if not thinking:  # the text before an unmatched end tag is reasoning
                parts.clear()
            at, thinking = mark.end(), False
        elif not thinking:
            parts.append(reply[at : mark.start()])
            thinking = True
    return "\n".join([*parts, "" if thinking else reply[at:]]).strip()


def fold(text: str) -> str:
    """Normalize case, compatibility forms, quotation marks, check boxes and spaces, and remove invisible characters."""
    # NFKC converts superscripts and fractions to digits: 7½ would become 71⁄2.
    fractions = any(unicodedata.category(letter) == "No" for letter in text)
    boxes = _TICKED.sub("☑", _BOX.sub("☐", text))
    letters = unicodedata.normalize("NFC" if fractions else "NFKC", boxes).translate(_QUOTES)
    visible = "".join(
        letter
        for letter in letters
        if unicodedata.category(letter) not in ("Cf", "Me") and not "\ufe00" <= letter <= "\ufe0f"
    )
    return " ".join(visible.casefold().split())


def unwrap(text: str) -> str:
    """Replace HTML, LaTeX and Markdown markup with its content."""
    text = _BRACKETED_TAG.sub(r"<\1>", _FRACTION.sub(r"\1/\2", html.unescape(text)))
    for _ in range(4):
        text = _LATEX.sub(r"\1", text)
    text = _ESCAPED.sub(r"\1", _EMPHASIS.sub(r"\2", _QUOTED.sub("", text)))
    lower = text.casefold()

    def replace(tag: re.Match[str]) -> str:
        name = (tag[1] or "").casefold()
        if name == "s" and "<s>" not in lower:
            return ""  # end-of-sequence token
        if name in _STRUCK or "line-through" in tag[0]:
            return tag[0]
        if not name or name in _INLINE:
            return ""
        return "\n" if name in _BLOCK or f"</{name}>" in lower else tag[0]

    return _TAG.sub(replace, text)


_MARKS = ("P", "S", "Z", "C")


def strip_marks(
    text: str, left: Collection[str] = "", right: Collection[str] = "", marks: tuple[str, ...] = _MARKS
) -> str:
    """Strip marks from both ends, except question and negation symbols and the characters in ``left`` and ``right``."""

    def is_mark(letter: str) -> bool:
        return unicodedata.category(letter).startswith(marks) and (letter not in DOUBTS or letter == "!")

    start, end = 0, len(text)
    while start < end and is_mark(text[start]) and text[start] != "!" and text[start] not in left:
        start += 1
    while start < end and is_mark(text[end - 1]) and text[end - 1] not in right:
        end -= 1
    return text[start:end]


def strip_label(text: str) -> str:
    """Remove the label before an answer, such as ``Final answer:``."""
    label = _LABEL.match(text)
    return text[label.end() :] if label else text


# JSON


class _Entries(list[tuple[str, Any]]):
    """Entries of a JSON object, whose names may be duplicated."""


_JSON_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|(?P<single>\'(?:[^\'\\]|\\.)*\')|(?P<curly>“[^”]*”)|(?P<brace>[{}])|(?P<comma>,)(?=\s*[}\]])'
    r"|(?P<word>\b(?:True|False|None)\b)",
    re.DOTALL,
)
_WORDS = {"True": "true", "False": "false", "None": "null"}


def find_objects(text: str) -> Iterator[_Entries]:
    """Yield the JSON objects in a text. Single quotes, trailing commas and Python literals are accepted."""
    at = unclosed = 0
    for _ in range(MAX_OBJECTS):
        at = text.find("{", at)
        if at < 0 or unclosed > MAX_UNCLOSED:
            return
        end, source = _scan_object(text, at)
        unclosed += not source
        try:
            value = json.loads(source, strict=False, object_pairs_hook=_Entries, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            at += 1
            continue
        yield value
        at = end


def _scan_object(text: str, start: int) -> tuple[int, str]:
    """Return the end of the object at a brace, and its source as strict JSON, empty if the object is not closed."""
    depth, at, parts = 0, start, []
    for token in _JSON_TOKEN.finditer(text, start):
        parts.append(text[at : token.start()])
        at = token.end()
        kind, source = token.lastgroup, token[0]
        if kind in ("single", "curly"):
            source = '"' + source[1:-1].replace("\\'", "'").replace('"', '\\"') + '"'
        parts.append("" if kind == "comma" else _WORDS.get(source, source) if kind == "word" else source)
        if kind == "brace":
            depth += 1 if source == "{" else -1
            if depth == 0:
                return at, "".join(parts)
    return len(text), ""


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def named_values(value: Any, is_name: Callable[[str], object]) -> Iterator[Any]:
    """Yield the values of all entries whose name matches, at any depth."""
    if isinstance(value, _Entries):
        for name, entry in value:
            if is_name(name.casefold()):
                yield entry
            else:
                yield from named_values(entry, is_name)
    elif isinstance(value, list):
        for item in value:
            yield from named_values(item, is_name)


def _leaf(value: Any) -> Any:
    """Return the value of a common answer key of a JSON object, or its only value. None for other objects."""
    while isinstance(value, _Entries):
        named = [entry for name, entry in value if _ANSWER_NAME.fullmatch(name.casefold())]
        entries = named or [entry for _, entry in value]
        value = entries[0] if len(entries) == 1 else None
    return value


def json_answers(text: str, entry: str) -> list[Any]:
    """Return the answers in the JSON objects of a text.

    Entries named ``entry``, at any depth, take precedence, followed by entries named ``answer``, then entries with
    another common name, such as ``final_score``. If there are none, the value of each object with one entry is used.
    """
    objects = list(find_objects(text))
    for is_name in (entry.casefold().__eq__, "answer".__eq__, _ANSWER_NAME.fullmatch):
        if values := list(named_values(objects, is_name)):
            return [_leaf(value) for value in values]
    return [value for value in map(_leaf, objects) if value is not None]


def _spellings(value: Any) -> list[str]:
    """Return the text forms of a JSON value. ``true`` also matches "yes"."""
    if isinstance(value, bool):
        return ["true", "yes"] if value else ["false", "no"]
    if isinstance(value, int | float):
        return [f"{value:.15g}"] if abs(value) < 1e15 else []
    if isinstance(value, list) and all(type(item) is int for item in value):
        return [", ".join(map(str, value[:100]))]
    return [value] if isinstance(value, str) else []


_ANSWER_NAME = re.compile(rf"value|label|(?:(?:{_MODIFIER})[ _-]*)*(?:{_NOUN})(?:[ _-]*(?:{_MODIFIER}))*")
"""Common names of the JSON entry that contains the answer."""


# Statements


def read_answer(
    reply: str,
    parse: Parser[T],
    *,
    entry: str = "answer",
    json_only: bool = False,
    cut_off: bool = False,
    mentions_other: Callable[[str, T], bool] | None = None,
) -> T | None:
    """Read the value stated in an answer. None if the answer states no value, or several different values.

    Args:
        reply: Text returned by the model.
        parse: Function that parses a piece of the text.
        entry: Name of the JSON entry that contains the answer.
        json_only: Whether to read only JSON objects.
        cut_off: Whether the text was truncated by the token limit, so that its last line is incomplete.
        mentions_other: Function that checks whether a text mentions another value. If the text after the last structure
            does, it may revise the answer, so the answer is invalid. None disables this check.
    """

    def parse_markup(piece: str) -> T | None:
        value = parse(piece)
        return parse(unwrap(piece)) if value is None else value

    if not json_only and (value := parse(reply)) is not None:
        return value
    text = remove_thoughts(reply)
    values = [
        next((value for text in _spellings(answer) if (value := parse_markup(text)) is not None), None)
        for answer in json_answers(text, entry)
    ]
    content, final = unwrap(text), None
    if not json_only:
        values += [parse_markup(match[1] or match[3] or "") for match in _STRUCTURE.finditer(text)]
        final = parse(content)
        if final is None and not cut_off:
            final = _last_statement(content, parse)
        if final is not None:
            values.append(final)
    # All statements must agree. A sentence that only mentions a value is not a statement.
    stated = [value for piece in _statements(content) if (value := parse(piece)) is not None]
    value = values[0] if values else None
    if value is None or any(other != value for other in (*values, *stated)):
        return None
    if final is None and mentions_other is not None:
        tail = text[max(text.rfind("}"), text.rfind("</")) + 1 :]
        return None if mentions_other(tail, value) else value
    return value


def _lines(text: str) -> list[str]:
    """Split a text into lines. Code fences and lines that contain only symbols become empty."""
    return [line if strip_marks(line) and not _FENCE.fullmatch(line) else "" for line in text.splitlines()]


def _statements(text: str) -> Iterator[str]:
    """Yield the lines of a text, its first sentence, and the sentences that begin with a label."""
    for number, line in enumerate(_lines(text.strip())):
        yield line
        sentences = SENTENCE_END.split(line)
        if number == 0 and not _ENUMERATION.fullmatch(sentences[0].strip()):
            yield sentences[0]
        yield from (sentence for sentence in sentences[1:] if _LABEL.match(strip_marks(fold(sentence))))


def _last_statement(text: str, parse: Parser[T]) -> T | None:
    """Parse the last line if it starts a new statement, or else its last sentence if it begins with a label."""
    lines = _lines(text)
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        return None
    previous = lines[-2].rstrip() if len(lines) > 1 else ""
    # A line that continues the previous sentence is not a statement: "I would not say", then "yes".
    starts_new = (
        not previous or not previous[-1].isalnum() or not strip_marks(strip_label(strip_marks(fold(previous)) + ":"))
    )
    if starts_new and (value := parse(lines[-1])) is not None:
        return value
    sentence = SENTENCE_END.split(lines[-1].strip())[-1]
    return parse(sentence) if _LABEL.match(strip_marks(fold(sentence))) else None


# Values


@cache
def choice_parser(choices: tuple[str, ...]) -> Parser[str]:
    """Build a parser for choices. Exact matches take precedence, then case-folded ones, then those without punctuation.

    Punctuation at the ends of a choice, such as ``>`` in ``>50K``, is part of the choice. It is stripped only if the
    choices remain distinct.
    """
    folded = [fold(choice) for choice in choices]
    left = {letter for choice in folded for letter in choice[: len(choice) - len(strip_marks(choice + "x")) + 1]}
    right = {letter for choice in folded for letter in choice[len(strip_marks("x" + choice)) - 1 :]}
    exact, same_case, unmarked = (
        _unique(forms, choices) for forms in (choices, folded, [strip_marks(form) for form in folded])
    )

    def parse(piece: str) -> str | None:
        text = fold(piece)
        stripped = strip_marks(text, left, right)
        unlabelled = strip_label(strip_marks(text, left, right))
        forms = [
            (piece.strip(), exact),
            (text, same_case),
            (stripped, same_case),
            (strip_marks(unlabelled, left, right), same_case),
        ]
        forms += [(strip_marks(text), unmarked), (strip_marks(unlabelled), unmarked)]
        return next((table[form] for form, table in forms if form and form in table), None)

    return parse


def _unique(forms: Iterable[str], choices: Sequence[str]) -> dict[str, str]:
    """Map each form to its choice. Forms of several choices are omitted."""
    forms = list(forms)
    return {form: choice for form, choice in zip(forms, choices, strict=True) if forms.count(form) == 1}


def read_choice(
    reply: str, choices: Sequence[str], *, entry: str = "answer", json_only: bool = False, cut_off: bool = False
) -> str | None:
    """Read the choice stated in an answer. None if the answer states no choice, or several.

    >>> read_choice("<think>Grey hair.</think> **Elderly**.", ["child", "elderly"])
    'elderly'
    >>> read_choice('Sure: {"age": "elderly", "why": "grey hair"}', ["child", "elderly"], entry="age")
    'elderly'
    >>> read_choice("not elderly", ["child", "elderly"])
    """

    def mentions_other(text: str, choice: str) -> bool:
        words = fold(text)
        return any(other != choice and re.search(rf"(?<!\w){re.escape(fold(other))}(?!\w)", words) for other in choices)

    choice = read_answer(
        reply,
        choice_parser(tuple(choices)),
        entry=entry,
        json_only=json_only,
        cut_off=cut_off,
        mentions_other=mentions_other,
    )
    longer = cut_off and any(other != choice and fold(other).startswith(fold(choice or "")) for other in choices)
    return None if longer else choice
