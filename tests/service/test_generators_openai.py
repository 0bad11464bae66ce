"""A client of OpenAI's interface, as it is published, works by another base URL alone."""

import base64
import json
from functools import partial

import pytest

openai = pytest.importorskip("openai", reason="needs openai")

from in_thread import running, until
from service_settings import AGES, LEXICON, guard_ages, keyless

from evenhand.core.coroutines import blocks
from evenhand.genai import Item, OpenAIChat
from evenhand.genai.backends.studio import Studio, StudioPixels
from evenhand.models.language.services import ServiceConnection
from evenhand.service.auth.keys import KeyStore
from evenhand.service.generation.generators import ConversationGenerator
from genai_upstream import Upstream

BIAS = {"age": {"child": 0.02, "adult": 0.96, "elderly": 0.02}}


@pytest.fixture(scope="module")
def upstream():
    with Upstream(Studio(BIAS, seed=3)) as service:
        yield service


@pytest.fixture(scope="module")
def service(upstream, tmp_path_factory):
    folder = tmp_path_factory.mktemp("openai")
    specifications = [{"condition": "leader", "group": "age", "values": [*AGES], "repeated": [6, 4, 6]}]
    shared = {"specifications": specifications}
    images = {"kind": "images", "url": upstream.url, "model": "studio-pictures", "options": {"size": "64x64"}}
    chat = {"kind": "chat", "url": upstream.url, "model": "studio-texts"}
    remote = {"name": "remote", "models": ["pictures", "dall-e-3"], "log_prompts": True, "pass_on": ["steps"]}
    guards = [
        {"name": "studio", "config": guard_ages({"kind": "studio", "bias": BIAS}, **shared)},
        {**remote, "config": guard_ages(images, **shared)},
        {"name": "stories", "log_prompts": True, "config": guard_ages(chat, classifier=LEXICON, **shared)},
    ]
    with running(keyless(folder, guards=guards)) as here:
        yield here


@pytest.fixture
def upstream_of_this_test(upstream):
    upstream.received.clear()
    upstream.failures.clear()
    upstream.always = upstream.error = upstream.body = None
    return upstream


@pytest.fixture
def client(service, upstream_of_this_test):
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def tell(client, asked="tell of a leader", create=None, **more):
    messages = [{"role": "user", "content": asked}]
    return (create or client.chat.completions.create)(**{"model": "stories", "messages": messages, **more})


def shown(data):
    return StudioPixels().classify(Item("image", base64.b64decode(data), "image/png"))["age"]


def test_the_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["studio", "pictures", "dall-e-3", "stories"]
    assert client.models.retrieve("dall-e-3").owned_by == "evenhand"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("unknown")


def test_pictures_keep_the_deadlines_and_say_what_was_changed(client, service):
    ages, changed = [], 0
    for _ in range(18):
        answer = client.images.with_raw_response.generate(model="studio", prompt="a leader at work")
        assert answer.headers["x-evenhand-guarded"] == "true"
        picture = answer.parse().data[0]
        ages.append(shown(picture.b64_json))
        asked = picture.revised_prompt is not None
        assert answer.headers["x-evenhand-changed"] == ("true" if asked else "false")
        assert ("asked=age" in answer.headers["x-evenhand-disclosure"]) == asked
        changed += asked
    assert 0 < changed < 18
    for value, deadline in zip(AGES, (6, 4, 6), strict=True):
        assert all(value in ages[at : at + deadline] for at in range(len(ages) - deadline + 1))
    machine = service.check_replay("studio")
    assert machine.enforcer.counts["leader: age"]["missed"] == 0
    assert not machine.open


def test_requests_that_generate_nothing_are_forwarded(client, upstream_of_this_test, caplog):
    found = client.embeddings.with_raw_response.create(model="small", input="a tree", encoding_format="float")
    assert found.headers["x-evenhand-guarded"] == "false"
    assert found.parse().data[0].embedding == [0.5]
    assert upstream_of_this_test.asked("/embeddings") == [
        {"model": "small", "input": "a tree", "encoding_format": "float"}
    ]
    assert client.moderations.create(input="a tree").results[0].flagged
    upstream_of_this_test.always = 400
    with pytest.raises(openai.BadRequestError, match="refused the request with status 400"):
        client.moderations.create(input="a tree")
    upstream_of_this_test.always, upstream_of_this_test.headers = 429, {"Retry-After": "0.4"}
    with pytest.raises(openai.RateLimitError) as limited:
        client.embeddings.create(model="small", input="a tree")
    assert limited.value.response.headers["retry-after"] == "1"
    upstream_of_this_test.always = 404
    upstream_of_this_test.error = {"code": "model_not_found", "message": "there is no model small"}
    with pytest.raises(openai.NotFoundError, match="there is no model small") as unknown:
        client.embeddings.create(model="small", input="a tree")
    assert unknown.value.code == "model_not_found"
    upstream_of_this_test.always, upstream_of_this_test.error, upstream_of_this_test.body = None, None, b"<html>"
    with pytest.raises(openai.InternalServerError, match="behind the guards failed"):
        client.moderations.create(input="a tree")
    upstream_of_this_test.always = 401
    with pytest.raises(openai.InternalServerError, match="failed with status 401") as failed:
        client.moderations.create(input="a tree")
    assert failed.value.code == "generator_failed"
    assert failed.value.response.headers["x-should-retry"] == "false"
    assert "forwarded request failed: the service refused the request with status 401" in caplog.text


def test_forwarded_requests_go_to_the_service_of_the_key_with_its_own_credentials(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("FIRST_KEY", "first-secret")
    with Upstream() as first, Upstream() as second:
        wires = {
            "a": {"url": first.url, "key": "FIRST_KEY"},
            "b": {"url": second.url},
            "c": {"url": second.url, "key": "UNSET_KEY"},
        }
        described = {
            "service": {"database": f"sqlite:///{tmp_path / 'evenhand.db'}"},
            "limits": {"upstream_seconds": 0.3},
            "guards": [
                {"name": name, "config": guard_ages({"kind": "chat", "model": "m", **wire}, classifier=LEXICON)}
                for name, wire in wires.items()
            ],
        }
        monkeypatch.setenv("UNSET_KEY", "other-secret")
        with running(described) as service:
            monkeypatch.delenv("UNSET_KEY")
            with KeyStore(service.context.database) as store:
                keys = {name: store.add(name, ["generate"], streams=[*name]) for name in ("a", "b", "c", "bc")}
                keys["viewer"] = store.add("viewer", ["read"])

            def moderate(name):
                base = {"base_url": f"{service.url}/v1", "api_key": keys[name], "max_retries": 0}
                with openai.OpenAI(**base) as client:
                    return client.moderations.create(input="a tree", extra_headers={"Idempotency-Key": "once"})

            assert moderate("a").results[0].flagged
            assert moderate("b").results[0].flagged
            for upstream, credentials in ((first, "Bearer first-secret"), (second, None)):
                ((_, headers, _),) = upstream.received
                assert headers.get("authorization") == credentials
                assert headers["idempotency-key"] == "once"
            with pytest.raises(openai.NotFoundError, match="several services"):
                moderate("bc")
            with pytest.raises(openai.InternalServerError) as unset:
                moderate("c")
            assert "UNSET_KEY" not in unset.value.response.text
            assert "UNSET_KEY for the key is not set" in caplog.text
            with pytest.raises(openai.PermissionDeniedError):
                moderate("viewer")
            second.hang()
            with pytest.raises(openai.InternalServerError, match="did not answer in time") as late:
                moderate("b")
            assert (late.value.status_code, late.value.code) == (504, "timeout")


def test_edits_are_forwarded_unchanged(client, service, upstream_of_this_test):
    picture = Studio(BIAS).generate("a tree").data
    found = client.images.with_raw_response.edit(model="gpt-image-1", image=("a.png", picture), prompt="a taller tree")
    assert found.headers["x-evenhand-guarded"] == "false"
    assert found.parse().data[0].b64_json
    ((_, headers, asked),) = upstream_of_this_test.received
    assert headers["content-type"] == found.http_request.headers["content-type"]
    assert picture in asked["body"]
    assert len(asked["body"]) == int(found.http_request.headers["content-length"])
    upstream_of_this_test.always = 400
    upstream_of_this_test.error = {"code": "content_policy_violation", "message": "rejected by our safety system"}
    with pytest.raises(openai.BadRequestError, match="rejected by our safety system") as refused:
        client.images.edit(model="gpt-image-1", image=("a.png", b"x"), prompt="a taller tree")
    assert refused.value.code == "content_policy_violation"


CONTEXT = {"code": "context_length_exceeded", "message": "at most 4096 tokens", "type": "invalid_request_error"}


@pytest.mark.parametrize("model", ["pictures", "stories"])
@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (400, CONTEXT, "context_length_exceeded"),
        (400, {"message": "no", "type": "invalid_request_error", "code": None}, "invalid_request_error"),
        (413, {"message": "too large"}, "refused"),
        (422, {"message": "no", "code": "a code with blanks"}, "refused"),
        (429, {"message": "slow down", "code": "rate_limit_exceeded"}, "rate_limit_exceeded"),
    ],
)
def test_an_error_about_the_request_keeps_its_meaning(client, upstream_of_this_test, model, status, error, code):
    upstream_of_this_test.always, upstream_of_this_test.error = status, error
    upstream_of_this_test.headers = {"Retry-After": "2"}
    generate = {"pictures": client.images.generate, "stories": partial(tell, client)}[model]
    asked = {"prompt": "a tree"} if model == "pictures" else {}
    with pytest.raises(openai.APIStatusError) as caught:
        generate(model=model, **asked)
    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert error["message"] in caught.value.message
    headers = caught.value.response.headers
    assert headers["x-evenhand-status"] == "refused"
    assert headers.get("retry-after") == ("2" if status == 429 else None)
    assert "x-should-retry" not in headers, "the client decides, as if it called the generator itself"


@pytest.mark.parametrize("status", [401, 403, 404, 500, 503])
def test_an_error_about_the_service_is_not_the_clients(client, upstream_of_this_test, status):
    upstream_of_this_test.always, upstream_of_this_test.error = status, {"message": "secret place", "code": "x"}
    upstream_of_this_test.headers = {"Retry-After": "0.01"}
    with pytest.raises(openai.InternalServerError) as caught:
        client.images.generate(model="pictures", prompt="a tree")
    assert (caught.value.status_code, caught.value.code) == (502, "generator_failed")
    assert "secret place" not in caught.value.message
    assert caught.value.response.headers.get("retry-after") == ("1" if status == 503 or status == 500 else None)


def test_a_model_that_declines_is_an_ordinary_answer(client, upstream_of_this_test):
    message = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    upstream_of_this_test.body = json.dumps(
        {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {"total_tokens": 7}}
    ).encode()
    answer = tell(client, "a tale of a tree")
    assert answer.choices[0].message.refusal == "I cannot help with that."
    assert answer.choices[0].message.content is None
    assert answer.usage.total_tokens == 7
    events = list(tell(client, "a tale of a tree", stream=True))
    assert events[0].choices[0].delta.refusal == "I cannot help with that."


def test_the_prompt_that_was_really_drawn_and_what_it_cost_are_handed_on(client, upstream_of_this_test):
    picture = base64.b64encode(Studio(BIAS).generate("a tree").data).decode()
    usage = {"total_tokens": 30, "input_tokens": 10, "output_tokens": 20, "input_tokens_details": {"text_tokens": 10}}
    data = [{"b64_json": picture, "revised_prompt": "a tall oak, oil on canvas"}]
    upstream_of_this_test.body = json.dumps({"created": 0, "data": data, "usage": usage}).encode()
    answer = client.images.generate(model="pictures", prompt="a tree", n=2)
    assert [one.revised_prompt for one in answer.data] == ["a tall oak, oil on canvas"] * 2
    assert (answer.usage.total_tokens, answer.usage.input_tokens_details.text_tokens) == (60, 20)


def conversation(messages):
    """A conversation with a model, and the list of messages that the model is asked."""
    asked = []

    class Chat(OpenAIChat):
        @blocks
        async def ask(self, messages):
            asked.extend(messages)
            return {"choices": [{"message": {"content": "so"}, "finish_reason": "stop"}]}

    chat = Chat(ServiceConnection("http://127.0.0.1:9/v1"), "m")
    return ConversationGenerator(chat, messages, {}), asked


@pytest.mark.parametrize(
    ("sent", "texts"),
    [
        ("a tale of a leader (x)", ["a tale ", "of a leader (x)"]),
        ("(x) a tale of a leader", ["(x) a tale ", "of a leader"]),
        ("a tale of a woman", ["a tale of a woman"]),
    ],
)
def test_words_go_around_the_texts_of_a_message_with_a_picture(sent, texts):
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    content = [{"type": "text", "text": "a tale "}, picture, {"type": "text", "text": "of a leader"}]
    talk, asked = conversation([{"role": "user", "content": content}])
    talk.generate(sent)
    found = asked[0]["content"]
    assert [part["text"] for part in found if part["type"] == "text"] == texts
    assert picture in found


@pytest.mark.parametrize(
    ("messages", "prompt", "sent", "expected"),
    [
        ("user: a leader, user: long", "a leader\nlong", "a leader\nlong (x)", "a leader, long (x)"),
        ("user: a leader, system: s, user: long", "a leader\nlong", "(x) a leader\nlong", "(x) a leader, s, long"),
        ("user: a leader, assistant: ok, user: long", "long", "long (x)", "a leader, ok, long (x)"),
        ("user: a leader, user: , user: long", "a leader\nlong", "a leader\nlong (x)", "a leader, long (x)"),
        ("user: a leader, user: long", "a leader\nlong", "a rewritten prompt", "a rewritten prompt"),
        ("system: s, user: a leader, assistant: Once", "a leader", "a leader (x)", "s, a leader (x), Once"),
    ],
)
def test_consecutive_messages_of_the_user_are_read_together(messages, prompt, sent, expected):
    pairs = [message.split(": ") for message in messages.split(", ")]
    talk, asked = conversation([{"role": role, "content": text} for role, text in pairs])
    assert talk.prompt == prompt
    talk.generate(sent)
    assert [message["content"] for message in asked] == expected.split(", ")


def test_options_are_handed_on_and_the_prompt_that_was_sent_is_told(client, service, upstream_of_this_test):
    answer = client.images.generate(
        model="dall-e-3", prompt="a tree", size="128x128", quality="hd", user="me", extra_body={"steps": 4}
    )
    (asked,) = upstream_of_this_test.asked("/images/generations")
    expected = {"model": "studio-pictures", "prompt": "a tree", "size": "128x128", "quality": "hd", "user": "me"}
    assert asked == {**expected, "steps": 4}
    assert answer.data[0].revised_prompt is None
    assert service.inputs("remote", "admit")[-1]["note"] == {"route": "images", "prompt": "a tree"}
    done = service.inputs("remote", "complete")[-1]["note"]
    assert done["prompt"] == done["sent"] == "a tree"
    assert done["item"]["media_type"] == "image/png"


def test_several_pictures_are_made_at_the_same_time(client, service):
    answer = client.images.with_raw_response.generate(model="pictures", prompt="a leader", n=6)
    found = answer.parse().data
    assert len(found) == 6
    assert {"child", "adult", "elderly"} <= {shown(picture.b64_json) for picture in found}
    numbers = [int(number) for number in answer.headers["x-evenhand-entry"].split(", ")]
    assert len(set(numbers)) == 6
    until(lambda: set(numbers) <= set(service.pictures("remote")), "the pictures are not kept")
    assert [picture.evenhand["entry"] for picture in found] == numbers
    service.check_replay("remote")


def test_a_service_that_makes_one_picture_at_a_time_is_asked_for_each(client, upstream_of_this_test):
    upstream_of_this_test.failures = [400]
    assert len(client.images.generate(model="pictures", prompt="a tree", n=3).data) == 3
    assert [one.get("n") for one in upstream_of_this_test.asked("/images/generations")] == [3, None, None, None]
    # One that makes fewer than it is asked for is asked again for the rest.
    upstream_of_this_test.received.clear()
    picture = base64.b64encode(Studio(BIAS).generate("a tree").data).decode()
    upstream_of_this_test.body = json.dumps({"data": [{"b64_json": picture}] * 2}).encode()
    assert len(client.images.generate(model="pictures", prompt="a tree", n=3).data) == 3
    assert [one.get("n") for one in upstream_of_this_test.asked("/images/generations")] == [3, None]


def test_some_of_several_pictures_are_answered_and_the_others_counted(client, service, upstream_of_this_test):
    # Pictures of trees count for nothing, so none is made again. After the first 404 each is asked for by itself.
    upstream_of_this_test.failures = [404, 404]
    answer = client.images.with_raw_response.generate(model="pictures", prompt="a tree", n=3)
    assert len(answer.parse().data) == 2
    assert answer.headers["x-evenhand-missing"] == "1"
    assert service.guard("remote").limiter.work_count == 0


@pytest.mark.parametrize(
    ("asked", "error", "code"),
    [
        ({"model": "nothing"}, "NotFoundError", "model_not_found"),
        ({"model": "stories"}, "BadRequestError", "model"),
        ({"extra_body": {"model": None}}, "BadRequestError", "model"),
        ({"model": "pictures", "extra_body": {"api_base": "x"}}, "BadRequestError", "unknown_parameter"),
        ({"model": "studio", "n": 11}, "UnprocessableEntityError", "request"),
        ({"model": "studio", "prompt": ""}, "UnprocessableEntityError", "request"),
    ],
)
def test_what_makes_no_sense_is_refused(client, asked, error, code):
    with pytest.raises(getattr(openai, error)) as refused:
        client.images.generate(**{"prompt": "a leader", **asked})
    assert refused.value.code == code


def test_a_text_is_guarded_and_its_messages_are_handed_on(client, service, upstream_of_this_test):
    earlier = [
        {"role": "system", "content": "You tell stories."},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "Hello."},
    ]
    ages = []
    for _ in range(12):
        answer = client.chat.completions.with_raw_response.create(
            model="stories", messages=[*earlier, {"role": "user", "content": "tell of a leader"}], temperature=0.5
        )
        assert answer.headers["x-evenhand-guarded"] == "true"
        told = answer.parse()
        assert told.model == "stories"
        assert told.choices[0].finish_reason == "stop"
        ages.append(next((age for age in AGES if age in told.choices[0].message.content), None))
    sent = upstream_of_this_test.asked("/chat/completions")
    assert all(one["messages"][:3] == earlier and one["temperature"] == 0.5 for one in sent)
    assert all(one["messages"][3]["content"].startswith("tell of a leader") for one in sent)
    assert any("(showing: age " in one["messages"][3]["content"] for one in sent)
    assert all("elderly" in ages[at : at + 6] for at in range(7))
    assert service.check_replay("stories").enforcer.counts["leader: age"]["missed"] == 0


def test_a_stream_is_looked_at_first_and_says_so(client, service):
    create = client.chat.completions.with_streaming_response.create
    with tell(client, create=create, stream=True, stream_options={"include_usage": True}) as answer:
        assert answer.headers["x-evenhand-buffered"] == "true"
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-evenhand-entry"]
    events = list(tell(client, stream=True))
    text = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
    assert text.startswith("There is somebody")
    assert events[0].choices[0].delta.role == "assistant"
    assert events[-1].choices[0].finish_reason == "stop"
    assert events[-1].evenhand["status"] == "ok"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "unsupported_parameter"),
        ({"extra_body": {"functions": [{"name": "f"}]}}, "unsupported_parameter"),
        ({"n": 2}, "n"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"messages": [{"role": "system", "content": "hello"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages"),
        ({"model": "studio"}, "model"),
    ],
)
def test_what_cannot_be_guarded_is_refused(client, asked, code):
    with pytest.raises(openai.BadRequestError) as refused:
        tell(client, "a leader", **asked)
    assert refused.value.code == code
    assert refused.value.body["hint"]
