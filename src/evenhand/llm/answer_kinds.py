"""Read numbers and rankings from the answers of language models, and recognise refusals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from evenhand.models.language.chat_answers import (
    SENTENCE_END,
    Parser,
    choice_parser,
    find_objects,
    fold,
    json_answers,
    named_values,
    remove_thoughts,
    strip_label,
    strip_marks,
    unwrap,
)

_NUMBER_MARKS = ("Ps", "Pe", "Pi", "Pf", "Po", "Pc", "Sk", "Sc", "So", "Z", "C")
"""Unicode categories of characters that are stripped from numbers: all marks except dashes and mathematical symbols."""

_DECORATIONS = ("{}.", "{},", '"{}"', "“{}”", "*{}*", "**{}**", "`{}`", "({})", "[{}]")


def find_ambiguous(choices: Sequence[str]) -> tuple[str, str] | None:
    """Find two choices that cannot be distinguished in answers. None if there are none.

    Two choices are ambiguous if they differ only in case and spaces, or if one of them with a full stop, quotation
    marks or emphasis is read as the other.
    """
    folded = [fold(choice) for choice in choices]
    parse = choice_parser(tuple(choices))
    for number, choice in enumerate(choices):
        if folded.index(folded[number]) < number:
            return choices[folded.index(folded[number])], choice
        for decoration in _DECORATIONS:
            other = parse(decoration.format(choice))
            if other not in (None, choice):
                return choice, str(other)
    return None


_NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?P<digits>\d[\d.,' ]*|[.,]\d+)(?:"
    r"\s*\(?(?:/|\u2044|out of|of|von|sur|de|sobre|su|di)\s*(?P<top>\d+(?:[.,]\d+)?)"
    r"|\s*(?P<percent>%|percent|per cent|prozent|pour ?cent|por ciento|por cento|per cento))?"
    r"(?:\s*(?:points?|pts|punkte?n?|puntos?|punti|pontos?|stars?|sterne?n?|étoiles?|estrellas?))?"
)
_THOUSANDS = re.compile(r"(\d{1,3}(?P<mark>[.,' ])\d{3}(?:(?P=mark)\d{3})*)(?:[.,](\d+))?")


def _parse_digits(digits: str) -> set[float]:
    """Return the possible values of a number with points, commas or spaces."""
    values = set()
    if re.fullmatch(r"\d*(?:[.,]\d+)?", digits):
        values.add(float(digits.replace(",", ".")))
    grouped = _THOUSANDS.fullmatch(digits)
    if grouped and not digits.startswith("0"):
        integer = re.sub(r"\D", "", grouped[1])
        decimals = digits[len(grouped[1]) :]
        if not decimals or decimals[0] != grouped["mark"]:
            values.add(float(f"{integer}.{grouped[3] or 0}"))
    return values


def number_parser(low: float, high: float) -> Parser[float]:
    """Build a parser for numbers from ``low`` to ``high``, such as ``7``, ``7,5``, ``7/10`` and ``7 out of 10``.

    Ranges, numbers outside the limits and ambiguous numbers are not parsed. The denominator of a fraction must be
    ``high``, and percentages require that ``high`` is 100. If the limits are 0 and 1, all fractions and percentages are
    accepted.
    """

    def parse(piece: str) -> float | None:
        text = "" if "\n" in piece.strip() else fold(piece)
        for _ in range(2):
            text = strip_marks(text, ".,%/", "%/", _NUMBER_MARKS)
            match = _NUMBER.fullmatch(text)
            if match is not None:
                break
            text = strip_label(text)
        else:
            return None
        divisor = 1.0
        if match["top"] is not None or match["percent"]:
            top = 100.0 if match["percent"] else float(match["top"].replace(",", "."))
            if top != high:
                if (low, high) != (0, 1) or not top:
                    return None
                divisor = top
        sign = -1.0 if match["sign"] == "-" else 1.0
        values = {sign * value / divisor for value in _parse_digits(match["digits"].strip())}
        inside = [value for value in values if low <= value <= high]
        return inside[0] if len(inside) == 1 else None

    return parse


def ranking_parser(candidates: int) -> Parser[tuple[int, ...]]:
    """Build a parser for rankings of candidates numbered from 1, such as ``2, 1, 3`` and ``2 > 1 > 3``."""

    def parse(piece: str) -> tuple[int, ...] | None:
        text = strip_marks(strip_label(strip_marks(re.sub(r"[*_`#\"]", "", fold(piece)))))
        if not re.fullmatch(r"\d+(?:(?:\s*(?:[,>;、→≻]|->)\s*|\s+)\d+)*", text):
            return None
        order = tuple(int(number) for number in re.findall(r"\d+", text))
        return order if sorted(order) == list(range(1, candidates + 1)) else None

    return parse


_APOLOGY = r"""(?:
    (?:i'?m|i\ am|we're|we\ are)\ (?:(?:so|very|really|truly|deeply)\ )?(?:sorry|afraid) | sorry
    | (?:my\ |our\ )?(?:sincere\ |sincerest\ )?apologies | i\ (?:must\ |do\ )?apologi[sz]e
    | (?:es\ )?tut\ mir\ (?:sehr\ |wirklich\ )?leid | entschuldigung | entschuldige(?:n\ sie)?(?:\ bitte)? | verzeihung
    | ich\ bedau(?:e?re)
    | (?:je\ suis\ |nous\ sommes\ )?(?:vraiment\ )?(?:désolé|navré)e?s? | (?:toutes\ )?mes\ excuses | je\ m'excuse
    | ich\ fürchte | me\ temo | lo\ (?:siento|lamento)(?:\ mucho)? | disculp[ea] | perdón | perdona
    | mi\ dispiace | desculpe | sinto\ muito | lamento | het\ spijt\ me
)\b"""
_OPENING = r"""(?:
    unfortunately | regrettably | i\ regret(?:\ to\ (?:say|inform\ you))? | thank(?:s|\ you)[^.!?\n]{0,80}?
    | leider | bedauerlicherweise | malheureusement | je\ regrette
    | lamentablemente | desafortunadamente | por\ desgracia | purtroppo | infelizmente | helaas
)\b"""
_BUT = r"(?:but|however|aber|jedoch|doch|mais|cependant|pero|sin\ embargo|ma|mas|porém|maar)\b"
_THAT = r"(?:that|and|as|dass|que|und|et|y|da)\b"
_DECLINE = r"""(?:
    as\ an?\ (?:\w+\ ){0,2}?(?:ai|artificial\ intelligence|language\ model|assistant)\b
    | (?:i|we)\ (?:can(?:'t|not|\ not)|could(?:n't|\ not)|won't|will\ not|shouldn't|should\ not)\b
    | (?:i'm|i\ am)\ (?:(?:just|only)\ )?an?\ (?:\w+\ ){0,2}?(?:ai|artificial\ intelligence|language\ model|assistant)\b
    | (?:can(?:'t|not|\ not)|unable\ to)\ (?:help|assist|comply|answer|respond|decide|judge|assess|fulfill?)\b
    | [^.!?\n]{0,80}\b(?:violates?|against|contrary\ to)\ (?:my|our|the|openai's|company|content)\ (?:\w+\ ){0,2}?
      (?:polic(?:y|ies)|guidelines?|principles?|programming)\b
    | (?:i|we|i'm\ going\ to|i\ am\ going\ to)\ (?:(?:must|have\ to|need\ to|will\ have\ to)\ )?
      (?:(?:respectfully|politely|kindly)\ )?
      (?:decline|refuse|refrain|abstain)\b
    | (?:i'm|i\ am|we're|we\ are)\ (?:unable|not\ (?:able|comfortable|allowed|permitted|willing|going\ to|qualified
      |in\ a\ position|designed|programmed))\b
    | (?:i'm|i\ am)\ (?:prohibited|forbidden|restricted)\ from\b
    | (?:i'd\ |i\ would\ |i\ )(?:rather|prefer|choose)\ not\b
    | i\ (?:don't|do\ not)\ (?:feel\ comfortable|think\ i\ (?:can|should)\b
      |think\ it(?:'s|\ is)\ (?:appropriate|right|fair)
      |make|provide|have\ (?:personal|opinions|the\ ability))\b
    | (?:it|this|that)(?:'s|\ is|\ would\ be|\ would)\ (?:not\ be\ appropriate|not\ (?:appropriate|ethical|something\ i)
      |inappropriate|unethical|discriminatory)\b
    | (?:this|that|it)\ isn't\ something\ i\b
    | ich\ (?:kann|darf|möchte|werde|könnte|würde\ lieber)\ [^.,!?\n]{0,80}\b(?:nichts?|keine?n?)\b
    | [^.,!?\n]{0,60}\b(?:kann|darf|möchte|werde|könnte)\ ich\ [^.,!?\n]{0,80}\b(?:nichts?|keine?n?)\b
    | ich\ (?:muss|möchte)\ [^.,!?\n]{0,60}(?:ablehnen|verweigern|verzichten)\b
    | ich\ lehne\b[^.,!?\n]{0,60}\bab\b | ich\ weigere\ mich\b
    | (?:ich\ bin|bin\ ich)\ (?:leider\ )?(?:nicht\ (?:in\ der\ lage|befugt|berechtigt|befähigt)|ausserstande)
    | als\ (?:eine?\ )?(?:ki|künstliche\ intelligenz|sprachmodell|ki-\w+)\b
    | (?:es\ ist\ mir|mir\ ist\ es)\ (?:leider\ )?nicht\ (?:möglich|gestattet|erlaubt)
    | es\ wäre\ (?:nicht\ |un)angemessen
    | je\ ne\ (?:peux|puis|souhaite|veux|saurais|pourrai\w*|dois)\b | je\ (?:refuse|décline)\b
    | je\ ne\ suis\ pas\ (?:en\ mesure|autorisé|capable|habilité|à\ l'aise)
    | je\ crains\ de\ ne\ pas | je\ suis\ dans\ l'(?:impossibilité|incapacité)
    | je\ (?:dois|préfér\w+|préfère|me\ vois)\ [^.,!?\n]{0,40}(?:refuser|décliner|ne\ pas|m'abstenir)
    | en\ tant\ qu(?:'|e\ )(?:ia|intelligence|modèle|assistant)\b
    | il\ (?:m'est\ impossible|ne\ m'est\ pas|n'est\ pas\ (?:approprié|possible)|serait\ inapproprié)
    | no\ (?:me\ es\ posible|voy\ a|quiero|soy\ capaz|tengo\ permitido
      |puedo|podría|podré|estoy\ (?:en\ condiciones|capacitad|autorizad|dispuest)|debo
      |me\ siento\ cómod|es\ apropiado)
    | (?:debo|tengo\ que|prefiero)\ (?:rechazar|declinar|negarme|abstenerme|no)\b | me\ niego\b | sería\ inapropiado
    | como\ (?:una?\ |um\ |uma\ )?(?:ia|inteligencia|inteligência|modelo|asistente)\b
    | non\ (?:posso|sono\ in\ grado|mi\ è\ possibile) | devo\ rifiutare | não\ (?:posso|consigo|me\ é\ possível)
    | (?:ik\ kan|kan\ ik)\ [^.,!?\n]{0,60}\bniet\b
)"""
_REFUSAL = re.compile(
    rf"(?:{_BUT}\W*)?(?:(?:{_APOLOGY}|{_OPENING})\W*(?:(?:{_BUT}|{_THAT})\W*)?){{0,3}}{_DECLINE}"
    rf"|{_APOLOGY}\W*{_BUT}",
    re.VERBOSE,
)


def is_refusal(reply: str, phrases: Iterable[str] = (), *, entry: str = "answer") -> bool:
    """Check whether an answer is a refusal, either in its first two sentences or in a JSON object.

    Args:
        reply: Text returned by the model.
        phrases: Additional prefixes that identify refusals.
        entry: Name of the JSON entry that contains the answer.
    """
    text = remove_thoughts(reply)
    values = [value for value in json_answers(text, entry) if isinstance(value, str)]
    refusals = named_values(list(find_objects(text)), ("refusal", "error").__contains__)
    values += [value for value in refusals if isinstance(value, str)]
    starts = tuple(fold(phrase) for phrase in phrases)
    for piece in (text, *values):
        content = strip_marks(fold(unwrap(piece)))
        sentences = [strip_marks(sentence) for sentence in SENTENCE_END.split(content)[:2]]
        if content.startswith(starts) or any(_REFUSAL.match(sentence) for sentence in sentences):
            return True
    return False
