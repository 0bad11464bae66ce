"""Fake language model: probabilities of answers, and answers that depend only on the conversation and the draw."""

from typing import Any

import pytest

from evenhand.errors import OptionError
from evenhand.testing import FakeChat


def body(text: str, **options: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **options}


def said(completion: dict[str, Any]) -> Any:
    return completion["choices"][0]["message"]["content"]


def draws(chat: FakeChat, text: str, many: int = 2000, **options: Any) -> list[Any]:
    return [said(chat.complete(body(text, **options), f"{n}")) for n in range(many)]


def test_answers_come_with_the_chances_that_were_given() -> None:
    chat = FakeChat(lambda text: 0.2 if "Lakisha" in text else {"invite": 0.5, "wait": 0.3, "decline": 0.2})
    assert draws(chat, "Lakisha").count("yes") / 2000 == pytest.approx(0.2, abs=0.03)
    other = draws(chat, "Emily")
    assert [other.count(answer) / 2000 for answer in ("invite", "wait", "decline")] == pytest.approx(
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


def test_a_model_that_declines() -> None:
    chat = FakeChat(1.0, refusals=lambda text: 0.3 if "job" in text else 0.0)
    answers = [chat.complete(body("a job"), f"{n}")["choices"][0]["message"] for n in range(500)]
    assert sum(answer["refusal"] is not None for answer in answers) / 500 == pytest.approx(0.3, abs=0.06)
    assert all((answer["content"] is None) == (answer["refusal"] is not None) for answer in answers)
    assert draws(chat, "a hobby", 50) == ["yes"] * 50


def test_words_are_tokens() -> None:
    chat = FakeChat({"one two three": 1.0})
    assert said(chat.complete(body("four words are read"))) == "one two three"
    cut = chat.complete(body("x", max_tokens=2))
    assert (said(cut), cut["choices"][0]["finish_reason"]) == ("one two ", "length")
    assert cut["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    with pytest.raises(OptionError, match="has not started"):
        _ = chat.url


def test_the_client_of_openai_understands_it() -> None:
    openai = pytest.importorskip("openai", reason="needs openai to compare with")
    with FakeChat({"yes": 0.75, "no": 0.25}) as chat:
        client = openai.OpenAI(base_url=chat.url, api_key="none")
        found = client.chat.completions.create(**body("Invite?"))
        assert found.choices[0].message.content in ("yes", "no")
        assert found.usage.total_tokens == 2
        chat.refusals = 1.0
        assert client.chat.completions.create(**body("Invite?")).choices[0].message.refusal.startswith("I'm sorry")
        with pytest.raises(openai.NotFoundError):
            client.models.list()
        client.close()
    assert len(chat.received) == 2
