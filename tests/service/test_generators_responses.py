"""Texts in the shape of OpenAI's responses are guarded as those of conversations are."""

from __future__ import annotations

import json

import pytest

openai = pytest.importorskip("openai", reason="needs openai")

from test_generators_openai import client, service, upstream, upstream_of_this_test  # noqa: F401  the same service


def test_a_response_is_guarded(client, service, upstream_of_this_test):  # noqa: F811  fixtures
    ages = []
    for _ in range(12):
        answer = client.responses.with_raw_response.create(
            model="stories", input="tell of a leader", instructions="Be brief.", max_output_tokens=50
        )
        assert answer.headers["x-evenhand-guarded"] == "true"
        ages.append("elderly" in answer.parse().output_text)
    assert all(any(ages[at : at + 6]) for at in range(7))
    sent = upstream_of_this_test.asked("/chat/completions")
    assert all(one["messages"][0] == {"role": "system", "content": "Be brief."} for one in sent)
    assert all(one["max_completion_tokens"] == 50 for one in sent)
    assert any("(showing: age " in one["messages"][1]["content"] for one in sent)
    assert not service.check_replay("stories").open


def test_messages_and_usage_are_converted(client, upstream_of_this_test):  # noqa: F811  fixtures
    choice = {"index": 0, "message": {"role": "assistant", "content": "An oak"}, "finish_reason": "length"}
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    upstream_of_this_test.body = json.dumps({"choices": [choice], "usage": usage}).encode()
    parts = [{"type": "input_text", "text": "a tree"}, {"type": "input_image", "image_url": "data:,", "detail": "low"}]
    asked = [
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
        {"type": "message", "role": "user", "content": parts},
    ]
    answer = client.responses.create(model="stories", input=asked, reasoning={"effort": "low"}, store=False)
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert (answer.output_text, answer.usage.input_tokens, answer.usage.total_tokens) == ("An oak", 3, 7)
    (sent,) = upstream_of_this_test.asked("/chat/completions")
    picture = {"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}}
    assert sent["messages"][1]["content"] == [{"type": "text", "text": "a tree"}, picture]
    assert sent["reasoning_effort"] == "low"
    assert "store" not in sent


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"stream": True}, "stream"),
        ({"text": {"format": "json"}}, "text"),
        ({"tools": [{"type": "web_search"}]}, "unsupported_parameter"),
        ({"previous_response_id": "resp_1"}, "unsupported_parameter"),
        ({"input": [{"type": "item_reference", "id": "1"}]}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "1"}]}]}, "input"),
        ({"input": [{"role": "system", "content": "hello"}]}, "messages"),
    ],
)
def test_what_cannot_be_guarded_is_refused(client, asked, code):  # noqa: F811  fixtures
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**{"model": "stories", "input": "a leader", **asked})
    assert refused.value.code == code
    assert refused.value.body["hint"]
