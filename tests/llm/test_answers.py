"""What an answer means: each way to read it, and the outcomes that are none of the choices."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.llm.answers import parse_reply, read_outcome
from evenhand.models.answer_store import ModelReply
from evenhand.models.language.services import ChatService, ServiceConnection
from llm.screening import screening

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
