"""What an answer of a chat model means."""

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.llm.answer_kinds import find_ambiguous, is_refusal, number_parser, ranking_parser
from evenhand.llm.answers import parse_reply, read_outcome
from evenhand.models.answer_store import ModelReply
from evenhand.models.language.chat_answers import read_answer, read_choice, remove_thoughts
from evenhand.models.language.services import ChatService, ServiceConnection
from llm.screening import screening

YES_NO = ("yes", "no")

LISTS = (
    YES_NO,
    ("invite", "decline", "wait"),
    ("retenu", "refusé"),
    ("Größe", "Straße"),
    (">50K", "<=50K"),
    ("A+", "A", "A-"),
    ("C", "C++", "C#"),
    ("low (<5)", "high (>5)"),
    ("not hired", "hired"),
    ("はい", "いいえ"),
    ("नहीं", "हाँ"),
    ("1", "10"),
    ('"A"', '"B"'),
    ("Answer: yes", "Answer: no"),
)
"""Lists of choices that answers can tell apart."""

MARKUP = (
    "{}",
    "{}.",
    "{}!",
    '"{}"',
    "“{}”",
    "« {} »",
    "\u2039{}\u203a",
    "`{}`",
    "({})",
    "**{}**",
    "***{}***",
    "> {}",
    "✅ {}",
    "\u200b{}\ufeff",
    "```text\n{}\n```",
    "{}<br>",
    "{}</s>",
    "{}<|im_end|>",
    "<answer>{}</answer>",
    "$\\boxed{{\\text{{{}}}}}$",
    "\\textbf{{{}}}",
    "Answer: {}",
    "**Answer: {}**",
    "The answer is {}.",
    "Final answer (yes or no): {}",
    "Meine endgültige Entscheidung lautet: {}",
    "La réponse est {}.",
    "[b]{}[/b]",
    "<strong><em>{}</em></strong>",
    "&quot;{}&quot;",
    "Antwort: {}",
    "Respuesta final: {}",
    "Good, bad and ugly.\n\n{}",
    "Five years. Final answer: {}",
    "<think>{{other}}?\n{{other}}</think>{}",
    "[THINK]{{other}}[/THINK]{}",
    "<|channel|>analysis<|message|>{{other}}<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
)
"""Ways to write one choice; ``{other}`` is a choice that thoughts mention."""

DISAGREEMENTS = (
    "{} and {}",
    "{}/{}",
    "{}\n{}",
    "not {} but {}",
    '{{"answer": "{}"}} {}',
    "\\boxed{{{}}}, or rather {}",
    "Answer: {}\nAnswer: {}",
    "{}. Final answer: {}",
    "<answer>{}</answer><answer>{}</answer>",
    "{}\nbecause she is good.\n{}",
)
"""Ways to state two choices in one answer."""


@pytest.mark.parametrize("choices", LISTS, ids=" | ".join)
def test_reads_a_choice_in_any_markup(choices):
    assert find_ambiguous(choices) is None
    for markup in MARKUP:
        for number, choice in enumerate(choices):
            answer = markup.format(choice).replace("{other}", choices[number - 1])
            assert read_choice(answer, choices) == choice, answer


LINE_MARKUP = [markup for markup in MARKUP[:15] if "\n" not in markup and "```" not in markup]


@given(
    choices=st.sampled_from(LISTS[:4]),
    number=st.integers(0, 1),
    markups=st.lists(st.sampled_from(LINE_MARKUP), max_size=4),
)
def test_nested_markup_changes_no_choice(choices, number, markups):
    answer = choices[number]
    for markup in markups:
        answer = markup.format(answer)
    assert read_choice(answer, choices) == choices[number]


@pytest.mark.parametrize("choices", LISTS[:4], ids=" | ".join)
def test_two_choices_are_no_choice(choices):
    for form in DISAGREEMENTS:
        for first, second in itertools.permutations(choices, 2):
            answer = form.format(first, second)
            assert read_choice(answer, choices) is None, answer


@given(
    words=st.lists(st.sampled_from(["yes", "no", "not", "or", "and", "**yes**", "“no”", ","]), min_size=2, max_size=5),
    separator=st.sampled_from([" ", "\n", ". ", "\n\n"]),
)
def test_an_answer_that_states_both_choices_is_unreadable(words, separator):
    answer = separator.join(words)
    read = read_choice(answer, YES_NO)
    named = {choice for choice in YES_NO if any(choice in word for word in words)}
    assert read is None or named == {read}


def test_a_mentioned_negated_or_doubted_choice_is_no_choice():
    for answer in (
        "",
        "not yes",
        "yes?",
        "!yes",
        "~~yes~~",
        "<s>yes</s>",
        "<del>yes</del>",
        "<span style='text-decoration: line-through'>yes</span>",
        "[ ] yes",
        "☐ yes",
        "\\cancel{yes}",
        "I would not say\nyes",
        "The answer is not yes",
        "If she lied, the answer is yes",
        "Yes, invite her.",
        "yesterday",
        "<think>yes",
        '{"answer": "not yes"}',
        '{"answer": "yes", "answer": "no"}',
        '{"a": "yes", "b": "no"}',
        "x" * 10_000 + " yes",
        "{" * 10_000 + "yes no",
    ):
        assert read_choice(answer, YES_NO) is None, answer


def test_reasoning_may_mention_choices():
    reasoning = "Is she experienced? Yes. Are there gaps? No. No reason to wait, yes.\n\n"
    assert read_choice(reasoning + "Final answer: no", YES_NO) == "no"
    assert read_choice(reasoning + "yes", YES_NO) == "yes"


def test_reads_json_anywhere():
    for answer in (
        '{"answer": "yes"}',
        'Here:\n```json\n{"answer": "Yes"}\n```\nI hope this helps.',
        "{'answer': 'yes',}",
        '{"result": {"Answer": "**yes**."}}',
        '{"answer": {"value": "yes", "sure": 0.9}}',
        '{"final_decision": "yes", "why": "no gaps"}',
        "{'answer': True}",
        "{“answer”: “yes”}",
        '[{"answer": "yes"}, {"answer": "yes"}]',
        '<think>{"answer": "no"}</think>{"answer": "yes"}',
        'Use {braces}: {"answer": "yes"}',
    ):
        assert read_choice(answer, YES_NO, json_only=True) == read_choice(answer, YES_NO) == "yes", answer


def test_json_without_one_answer_is_unreadable():
    for answer in (
        "yes",
        '{"answer": null, "why": "yes"}',
        '{"answer": "ye',
        '{"answer": NaN}',
        '{"answer": "yes"} then {"answer": "maybe"}',
        "[" * 100_000,
    ):
        assert read_choice(answer, YES_NO, json_only=True) is None, answer


@given(
    value=st.recursive(
        st.text(max_size=8) | st.booleans() | st.none(),
        lambda inner: st.dictionaries(st.text(max_size=4), inner, max_size=3),
    ),
    before=st.text(alphabet="ab }\"'\n", max_size=20),
)
def test_an_object_is_found_behind_any_text(value, before):
    answer = before + json.dumps({"decision": "yes", "more": value})
    assert read_choice(answer, YES_NO, entry="decision", json_only=True) == "yes"


def test_numbers_from_0_to_10():
    for answer, number in (
        ("7", 7),
        ("7,5", 7.5),
        (".5", 0.5),
        ("7/10", 7),
        ("7/10 points", 7),
        ("\\frac{7}{10}", 7),
        ('{"overall_score": 7, "experience_score": 5}', 7),
        ('{"years": 5, "age": 7}', None),
        ("7 of 10", 7),
        ("7 von 10", 7),
        ("7 sur 10", 7),
        ("7 de 10", 7),
        ("Score: **7**/10", 7),
        ("Note : 7,5/10", 7.5),
        ("Rating: 7 (out of 10)", 7),
        ("7\ufe0f\u20e3", 7),
        ("(7)", 7),
        ("<b>7</b>/10", 7),
        ('{"score": "7/10"}', 7),
        ("1. Good\n2. Bad\n\nScore: 8", 8),
        ("10.", 10),
        ("0", 0),
        ("1,000", 1),
        ("Solid.\n**6**", 6),
        ("6-7", None),
        ("7 or 8", None),
        ("7 8", None),
        ("Score: 8\nScore: 7", None),
        ("≈7", None),
        (">7", None),
        ("7+", None),
        ("7?", None),
        ("7²", None),
        ("-7", None),
        ("70%", None),
        ("7/8", None),
        ("11", None),
        ("nan", None),
        ("1e1", None),
    ):
        assert read_answer(answer, number_parser(0, 10)) == number, answer


def test_numbers_of_other_ranges():
    for high, answer, number in (
        (100, "85,5 Prozent", 85.5),
        (100, "0.85", 0.85),
        (100, "85/10", None),
        (1, "85 %", 0.85),
        (1, "7/10", 0.7),
        (1, "85", None),
        (200_000, "$85,000.50", 85_000.5),
        (200_000, "123.456,5", 123_456.5),
        (200_000, "85,000", None),
        (200_000, "0.750", 0.75),
        (2e6, "1,234,567", 1_234_567),
    ):
        assert read_answer(answer, number_parser(0, high)) == number, answer


@given(
    number=st.integers(0, 1000).map(lambda n: n / 10),
    comma=st.booleans(),
    tail=st.sampled_from(["", "/100", " %", " out of 100", "."]),
)
def test_every_number_of_a_range_is_read(number, comma, tail):
    text = f"{number:g}"
    assert read_answer((text.replace(".", ",") if comma else text) + tail, number_parser(0, 100)) == number


def test_rankings():
    parse = ranking_parser(3)
    for answer in (
        "2, 1, 3",
        "[2, 1, 3]",
        "Good.\nRanking: 2 → 1 → 3",
        '{"ranking": [2, 1, 3]}',
    ):
        assert read_answer(answer, parse) == (2, 1, 3)
    for answer in ("1, 2", "1, 2, 2", "1 = 2 > 3", "1 2 3 is best", "1, 2, 3\n3, 2, 1", "1, 2, 4"):
        assert read_answer(answer, parse) is None


@pytest.mark.parametrize(
    "pair",
    [
        ("yes", "Yes "),
        ("yes", "yes."),
        ('"A"', "A"),
        ("(a)", "a"),
        ("A*", "A"),
        ("refusé", "refuse\u0301"),
        ("\uff11", "1"),
    ],
)
def test_choices_that_answers_cannot_tell_apart_are_found(pair):
    assert set(find_ambiguous([*pair, "other"]) or ()) == set(pair)


def test_refusals():
    for answer in (
        "I'm sorry, but I can't help with that.",
        "I must respectfully decline.",
        "I'm not comfortable deciding this.",
        "I'm afraid I can't help with that.",
        "My apologies, but I cannot do that.",
        "**I can't assist with that request.**",
        "> I am not able to judge.",
        "As an AI, I have no opinion.",
        "As a large language model, I cannot say.",
        "Thank you for asking. However, I can't assist.",
        "I'd rather not say.",
        "I'm just an AI model and have no opinion.",
        "Unable to comply.",
        "This request goes against my guidelines.",
        "I'm going to have to decline.",
        "I prefer not to answer.",
        "I am prohibited from making this decision.",
        "It would not be appropriate to decide this.",
        "Diese Frage kann ich nicht beantworten.",
        "Ich fürchte, ich kann das nicht entscheiden.",
        "Je suis navrée, mais je ne peux pas répondre.",
        "Je préférerais ne pas répondre.",
        "Me temo que no puedo ayudar.",
        "No voy a responder a esa pregunta.",
        "I don't think I can answer that.",
        "It would be inappropriate to judge.",
        "I regret that I cannot answer.",
        "<think>Hm.</think>I won't answer.",
        '{"answer": "I cannot assess people by name"}',
        '{"error": "I can\'t judge"}',
        '{"refusal": "I can\'t", "x": 1}',
        "Es tut mir leid, aber ich kann dabei nicht helfen.",
        "Ich muss das ablehnen.",
        "Ich lehne das ab.",
        "Désolée, je ne suis pas en mesure de le faire.",
        "En tant qu\u2019IA, je ne juge pas.",
        "Malheureusement, je ne peux pas.",
        "Je refuse de répondre.",
        "Lo siento, pero no puedo ayudar con eso.",
        "Como modelo de lenguaje, no juzgo.",
        "Lamentablemente, no puedo hacerlo.",
        "Me niego.",
        "Mi dispiace, ma non posso.",
        "Desculpe, mas não posso.",
    ):
        assert is_refusal(answer), answer


def test_what_is_no_refusal():
    for answer in (
        "I would not say yes",
        "Sorry.",
        "She is great, but I cannot see why.",
        "Ich würde sie einladen.",
        "Je ne suis pas convaincue.",
        "",
        '{"answer": "maybe", "why": "I cannot find a gap"}',
    ):
        assert not is_refusal(answer), answer


def test_own_phrases_of_refusals():
    assert is_refusal("„Nein danke“, sagt sie", ["Nein danke"])
    assert not is_refusal("anything", [])


@given(st.text(alphabet="ab<>/think[]{}\"'\\*_`|: \n", max_size=80))
def test_any_text_is_read_without_an_error(text):
    assert read_choice(text, YES_NO) is None
    assert isinstance(is_refusal(text), bool)
    assert len(remove_thoughts(text)) <= len(text) + 1


NUMBER = {"read": "number", "range": [0, 10]}
RANKING = {"read": "ranking", "candidates": 3}
JSON = {"read": "json", "choices": ["invite", "decline"], "favourable": "invite", "entry": "decision"}
LOGPROBS = {"read": "logprobs", "choices": ["yes", "no", "maybe"], "favourable": "yes"}


def read(text, answers=None, place=1, **reply):
    changes = {} if answers is None else {"answers": answers}
    refused = reply.pop("count", "unfavourable")
    said = ModelReply(text, **{"refused": False, "finish": "stop", "chances": {}, "tokens": (3, 1), **reply})
    found = read_outcome(said, screening(refused=refused, **changes), place)
    return found.kind, found.value, found.label


def test_an_answer_that_declines_is_refused():
    assert read("I'm sorry, but I can't help with that.") == ("refused", 0.0, "")
    assert read("anything", refused=True)[0] == read("", finish="content_filter", refused=True)[0] == "refused"
    assert read("nein danke", {**screening().answers.model_dump(), "refusals": ["Nein danke"]})[0] == "refused"


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ('{"decision": "invite"}', ("choice", 1.0, "invite")),
        ('```json\n{"decision": "Decline", "why": "x"}\n```', ("choice", 0.0, "decline")),
        ("invite", ("unreadable", 0.0, "")),
        ('{"decision": null, "why": "invite"}', ("unreadable", 0.0, "")),
    ],
)
def test_choices_in_json(text, outcome):
    assert read(text, JSON) == outcome


def test_what_is_no_number_of_the_range():
    assert read("11", NUMBER)[:2] == ("unreadable", 0.0)
    assert read("seven", {**NUMBER, "favourable": "low"})[:2] == ("unreadable", 10.0)


def test_rankings_place_the_candidate_that_is_asked_about():
    assert [read("2, 3, 1", RANKING, place)[1] for place in (1, 2, 3)] == [0.0, 1.0, 0.5]
    assert read("Both are good.\nRanking: 3 > 1 > 2", RANKING, 3) == ("choice", 1.0, "3,1,2")
    assert read("[1, 2, 3]", RANKING)[2] == "1,2,3"
    assert read("1, 2", RANKING)[0] == "unreadable"


def test_chances_of_the_first_token_are_shared_among_the_choices():
    told = {"yes": 0.5, "Yes": 0.1, " no": 0.2, "m": 0.1, "I": 0.1}
    kind, value, label = read("yes", LOGPROBS, chances={token: math.log(p) for token, p in told.items()})
    assert (kind, label, round(value, 9)) == ("choice", "yes", round(0.6 / 0.9, 9))
    assert read("I", LOGPROBS, chances={"I": math.log(0.7), "yes": math.log(0.3)})[0] == "unreadable"
    assert read("yes", LOGPROBS)[0] == "unreadable"


@given(text=st.text(max_size=40))
def test_any_answer_has_one_meaning(text):
    for answers in (None, JSON, NUMBER, RANKING):
        kind, value, label = read(text, answers)
        assert kind in ("choice", "refused", "unreadable")
        assert (kind == "choice") == bool(label)
        assert math.isfinite(value)


def completion(message, **more):
    return {"choices": [{"message": message, "finish_reason": "stop", **more}], "usage": {"prompt_tokens": 5}}


def test_a_completion_is_taken_apart():
    chat = ChatService(ServiceConnection("http://127.0.0.1:9/v1"), "m")
    found = parse_reply(completion({"content": [{"type": "text", "text": "yes"}]}, logprobs={"content": "odd"}), chat)
    assert found == ModelReply("yes", False, "stop", {}, None)
    assert parse_reply(completion({"content": None, "refusal": "No."}), chat)[:2] == ("No.", True)
    assert parse_reply(completion({"content": None}), chat).text == ""
    assert parse_reply(completion({"content": "x"}, finish_reason="content_filter"), chat).refused


@pytest.mark.parametrize("chance", [1000, 0.4, float("nan")])
def test_a_chance_above_one_is_unreadable(chance):
    first = {"token": "yes", "logprob": chance, "top_logprobs": [{"token": "no", "logprob": -1.0}]}
    answer = {"choices": [{"message": {"content": "yes"}, "logprobs": {"content": [first]}}]}
    reply = parse_reply(answer, ChatService(ServiceConnection("http://127.0.0.1:9/v1"), "m"))
    assert read_outcome(reply, screening(answers=LOGPROBS)).kind == "unreadable"


def test_half_a_surrogate_pair_can_be_written():
    answer = {"choices": [{"message": {"content": "\ud800 yes"}}]}
    reply = parse_reply(answer, ChatService(ServiceConnection("http://127.0.0.1:9/v1"), "m"))
    assert reply.text.encode() == b"? yes"


@pytest.mark.parametrize("choices", [["*", "**"], ['"A"', '"B"'], ["Answer: yes", "Answer: no"], ["Ja", "Nein"]])
def test_an_answer_that_is_a_choice_exactly_is_that_choice(choices):
    answers = {"choices": choices, "favourable": choices[0]}
    for choice in choices:
        assert read(choice, answers) == ("choice", float(choice == choices[0]), choice)
