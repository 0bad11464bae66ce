"""The double of a language model: known chances, answers that depend on the draw alone, faults, and the bill."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from evenhand.core.services import ServiceConnection
from evenhand.errors import FetchError, ModelError, OptionError
from evenhand.testing import FakeChat, chance_by_words


def body(text: str, **options: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **options}


def said(completion: dict[str, Any]) -> Any:
    return completion["choices"][0]["message"]["content"]


def draws(chat: FakeChat, text: str, many: int = 2000, **options: Any) -> list[Any]:
    return [said(chat.complete(body(text, **options), f"{n}")) for n in range(many)]


@pytest.fixture
def connection(request: pytest.FixtureRequest) -> Any:
    made: list[ServiceConnection] = []

    def connect(chat: FakeChat, **options: Any) -> ServiceConnection:
        made.append(ServiceConnection(chat.url, **{"retries": 0, **options}))
        return made[-1]

    yield connect
    for one in made:
        one.close()


def test_answers_come_with_the_chances_that_were_given() -> None:
    chat = FakeChat(lambda text: 0.2 if "Lakisha" in text else {"invite": 0.5, "wait": 0.3, "decline": 0.2})
    assert draws(chat, "Lakisha").count("yes") / 2000 == pytest.approx(0.2, abs=0.03)
    other = draws(chat, "Emily")
    assert [other.count(one) / 2000 for one in ("invite", "wait", "decline")] == pytest.approx(
        [0.5, 0.3, 0.2], abs=0.04
    )


def test_an_answer_depends_on_the_conversation_and_the_draw() -> None:
    chat, again = FakeChat(), FakeChat()
    first = {n: said(chat.complete(body("a"), f"{n}")) for n in range(50)}
    assert {n: said(again.complete(body("a"), f"{n}")) for n in reversed(range(50))} == first
    assert [said(chat.complete(body("b"), f"{n}")) for n in range(50)] != list(first.values())
    # Without a key it counts how often the same conversation came.
    assert [said(FakeChat().complete(body("c"))) for _ in range(20)] == [said(FakeChat().complete(body("c")))] * 20
    assert len({said(chat.complete(body("c"))) for _ in range(50)}) == 2
    assert [said(FakeChat(seed=1).complete(body("a"), f"{n}")) for n in range(50)] != list(first.values())


def test_seeds_are_honoured_or_not() -> None:
    asked = body("x", seed=7)
    assert len({said(FakeChat(seeds=True).complete(asked, f"{n}")) for n in range(50)}) == 1
    assert len({said(FakeChat().complete(asked, f"{n}")) for n in range(50)}) == 2
    # Both sides of a pair share their luck: the one with the better chance says yes whenever the other does.
    chat = FakeChat(lambda text: 0.3 if "Lakisha" in text else 0.6, seeds=True)
    pairs = [[said(chat.complete(body(name, seed=n))) for name in ("Lakisha", "Emily")] for n in range(200)]
    assert ["yes", "no"] not in pairs
    assert ["no", "yes"] in pairs


def test_a_model_that_declines() -> None:
    chat = FakeChat(1.0, refusals=lambda text: 0.3 if "job" in text else 0.0)
    answers = [chat.complete(body("a job"), f"{n}")["choices"][0]["message"] for n in range(500)]
    assert sum(one["refusal"] is not None for one in answers) / 500 == pytest.approx(0.3, abs=0.06)
    assert all((one["content"] is None) == (one["refusal"] is not None) for one in answers)
    assert draws(chat, "a hobby", 50) == ["yes"] * 50


def test_log_probabilities_are_those_of_the_chances() -> None:
    chat = FakeChat({"yes": 0.7, "yes, gladly": 0.1, "no": 0.2, "never": 0.0})
    found = chat.complete(body("x", logprobs=True, top_logprobs=5))["choices"][0]["logprobs"]["content"][0]
    assert {one["token"]: round(math.exp(one["logprob"]), 9) for one in found["top_logprobs"]} == {
        "yes": 0.7,
        "no": 0.2,
        "yes,": 0.1,
    }
    assert chat.complete(body("x"))["choices"][0]["logprobs"] is None


def test_words_are_tokens_and_are_charged() -> None:
    chat = FakeChat({"one two three": 1.0})
    assert said(chat.complete(body("four words are read"))) == "one two three"
    cut = chat.complete(body("x", max_tokens=2))
    assert (said(cut), cut["choices"][0]["finish_reason"]) == ("one two ", "length")
    assert cut["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    assert (chat.tokens, len(chat.paid)) == ((5, 5), 2)


def test_faults_come_at_the_request_that_was_said(connection: Any) -> None:
    with FakeChat(1.0, faults={1: 429, 2: 500, 3: "slow", 4: "truncated", 5: "hangs up"}) as chat:
        service = connection(chat, timeout=0.2)
        for fault in ("status 429", "status 500", "within 0.2 seconds", "is not JSON", "does not answer"):
            with pytest.raises((FetchError, ModelError), match=fault):
                service.post("/chat/completions", body("x"))
        assert said(service.post("/chat/completions", body("x"))) == "yes"
    # What the client did not wait for, or could not read, is charged all the same.
    assert (len(chat.received), len(chat.paid)) == (6, 3)


def test_requests_at_the_same_time_are_counted_and_limited(connection: Any) -> None:
    with FakeChat(latency=0.05, at_once=2) as chat:
        service = connection(chat, retries=20, backoff=0.01)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: service.post("/chat/completions", body(f"{n}")), range(8)))
        assert 2 <= chat.most_at_once <= 4
        assert len(chat.paid) == 8
        with pytest.raises(FetchError, match="status 404"):
            service.post("/elsewhere", {})


def test_chances_by_words() -> None:
    chance = chance_by_words(0.5, {"Lakisha": -1.0, "led": 0.5})
    assert chance("anything") == pytest.approx(0.5)
    assert chance("Lakisha led, Lakisha") == pytest.approx(1 / (1 + math.exp(1.5)))
    varied = chance_by_words(0.5, {"Lakisha": -1.0}, spread=2.0)
    texts = [f"text {n}" for n in range(2000)]
    logits = [math.log(varied(text) / (1 - varied(text))) for text in texts]
    assert math.fsum(logits) / 2000 == pytest.approx(0, abs=0.15)
    assert math.sqrt(math.fsum(one**2 for one in logits) / 2000) == pytest.approx(2, abs=0.1)
    # The rest of a text is what it is, whoever is named in it.
    odds = [varied(name) / (1 - varied(name)) for name in ("text 1", "text Lakisha 1")]
    assert math.log(odds[1] / odds[0]) == pytest.approx(-1)
    with pytest.raises(OptionError, match="has not started"):
        _ = FakeChat().url
    with pytest.raises(OptionError, match="between 0 and 1"):
        chance_by_words(1.0)


def test_the_client_of_openai_understands_it() -> None:
    openai = pytest.importorskip("openai", reason="needs openai to compare with")
    with FakeChat({"yes": 0.75, "no": 0.25}, faults={1: 429}, refusals=0.0) as chat:
        client = openai.OpenAI(base_url=chat.url, api_key="none")
        found = client.chat.completions.create(**body("Invite?"), logprobs=True, top_logprobs=2, seed=1)
        assert found.choices[0].message.content in ("yes", "no")
        assert found.usage.total_tokens == 2
        assert found.choices[0].logprobs.content[0].top_logprobs[0].token == "yes"
        chat.refusals = 1.0
        assert client.chat.completions.create(**body("Invite?")).choices[0].message.refusal.startswith("I'm sorry")
        with pytest.raises(openai.NotFoundError):
            client.models.list()
        client.close()
    assert (len(chat.received), len(chat.paid)) == (3, 2)
