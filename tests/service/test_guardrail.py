"""The guardrail that LiteLLM calls: before it asks a model, and again with the answer."""

import base64
import json

import pytest

httpx = pytest.importorskip("httpx", reason="needs httpx")

from in_thread import replaced, running, until
from service_settings import AGES, LEXICON, guard_ages, keyless

from evenhand.errors import ModelError
from evenhand.genai.backends.studio import Studio
from evenhand.service.generation.guardrail import Guardrail

CONFIG = guard_ages(classifier=LEXICON)


@pytest.fixture
def service(tmp_path):
    guards = [
        {"name": "stories", "models": ["gpt"], "config": CONFIG, "log_prompts": True},
        {"name": "lenient", "config": {**CONFIG, "guard": {"when_unsure": "pass"}}},
        {"name": "pictures", "config": guard_ages()},
    ]
    with running(keyless(tmp_path, guards=guards)) as here:
        yield here


def call(service, kind, name, texts, guard="stories", **more):
    # As LiteLLM sends it, entries of None included.
    body = {"litellm_call_id": name, "litellm_trace_id": "trace", "texts": texts, "input_type": kind}
    body |= dict.fromkeys(("images", "tools", "tool_calls", "structured_messages"))
    body |= {
        "request_data": {"user_api_key_hash": "x"},
        "additional_provider_specific_params": {"guard": guard},
        **more,
    }
    return httpx.post(f"{service.url}/beta/litellm_basic_guardrail_api", json=body, timeout=30)


def test_prompts_are_changed_and_what_came_is_counted(service):
    ages = []
    for number in range(12):
        before = call(service, "request", f"call-{number}", ["Be brief.", "tell of a leader"]).json()
        prompt = "tell of a leader"
        if before["action"] == "GUARDRAIL_INTERVENED":
            assert before["texts"][0] == "Be brief."
            prompt = before["texts"][1]
            assert prompt.startswith("tell of a leader (showing: age ")
        else:
            assert before == {"action": "NONE"}
        ages.append(next((age for age in AGES if age in prompt), "adult"))
        after = call(service, "response", f"call-{number}", [f"There was an {ages[-1]}."])
        assert after.json() == {"action": "NONE"}
        assert after.headers["x-evenhand-status"] == "ok"
    assert all(set(ages[at : at + 4]) == set(AGES) for at in range(9))
    machine = service.check_replay("stories")
    assert machine.enforcer.counts["leader: age"]["missed"] == 0
    assert not machine.open


def test_the_same_call_gets_the_same_answer(service):
    for _ in range(3):
        one, other = (call(service, "request", "again", ["a leader"]).json() for _ in range(2))
        assert one == other
    assert len(service.inputs("stories", "admit")) == 1
    for _ in range(2):
        assert call(service, "response", "again", ["an adult"]).json() == {"action": "NONE"}
    assert len(service.inputs("stories", "complete")) == 1
    assert call(service, "request", "again", ["a leader"]).json() == one


def test_an_answer_that_was_not_asked_for_here_is_kept_back(service):
    answer = call(service, "response", "unknown", ["an adult"])
    assert answer.json()["action"] == "BLOCKED"
    assert "not admitted" in answer.json()["blocked_reason"]
    lenient = call(service, "response", "unknown", ["an adult"], guard="lenient")
    assert lenient.json() == {"action": "NONE"}
    assert lenient.headers["x-evenhand-guarded"] == "false"
    until(lambda: service.inputs("lenient", "record"), "the log tells nothing")


def test_disobedience_is_delivered_and_told(service):
    for number in range(4):
        call(service, "request", f"call-{number}", ["a leader"])
        last = call(service, "response", f"call-{number}", ["an adult"])
    assert last.json() == {"action": "NONE"}
    assert last.headers["x-evenhand-status"] == "violation"
    machine = service.check_replay("stories")
    assert machine.enforcer.counts["leader: age"]["disobeyed"] >= 1
    assert not machine.open


def test_an_answer_without_text_is_no_item(service):
    call(service, "request", "tools", ["a leader"])
    assert call(service, "response", "tools", []).json() == {"action": "NONE"}
    assert service.inputs("stories", "fail")[-1]["final"]
    assert not service.state("stories")["open"]


def test_pictures_are_looked_at(service):
    call(service, "request", "p", ["a leader"], guard="pictures")
    drawn = base64.b64encode(Studio(seed=1).generate("an elderly leader").data).decode()
    answer = call(service, "response", "p", [], guard="pictures", images=[f"data:image/png;base64,{drawn}"])
    assert answer.json() == {"action": "NONE"}
    assert service.inputs("pictures", "complete")[-1]["values"]["age"] == "elderly"
    call(service, "request", "q", ["a leader"], guard="pictures")
    elsewhere = call(service, "response", "q", [], guard="pictures", images=["http://127.0.0.1/x.png"])
    assert elsewhere.status_code == 400
    assert "base64" in json.dumps(elsewhere.json())


def test_what_the_user_asks_is_found_among_messages(service):
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "a leader"}, {"type": "image_url"}]},
        {"role": "assistant", "content": "Hello."},
    ]
    for number in range(4):
        answer = call(service, "request", f"m-{number}", ["a leader", "Hello."], structured_messages=messages).json()
    assert answer["texts"][0].startswith("a leader (showing")
    assert answer["texts"][1] == "Hello."


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"litellm_call_id": None}, 400, "litellm_call_id"),
        ({"additional_provider_specific_params": {"guard": "nothing"}}, 404, "guard"),
        ({"additional_provider_specific_params": {}}, 400, "guard"),
        ({"input_type": "both"}, 422, "request"),
    ],
)
def test_what_makes_no_sense_is_refused(service, change, status, code):
    answer = call(service, "request", "x", ["a leader"], **change)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code


def test_the_guard_of_a_model_is_found_by_its_name(service):
    answer = call(service, "request", "x", ["a leader"], additional_provider_specific_params=None, model="gpt")
    assert answer.status_code == 200
    assert service.inputs("stories", "admit")


def test_a_gateways_guard_makes_nothing_itself(service):
    assert httpx.get(f"{service.url}/v1/models").json()["data"] == []
    asked = {"model": "gpt", "messages": [{"role": "user", "content": "a leader"}]}
    assert httpx.post(f"{service.url}/v1/chat/completions", json=asked).status_code == 400


def test_a_call_whose_item_never_comes_is_given_up_by_a_clock_that_nobody_sets(service):
    now = [1000.0]
    guard = service.guard("stories")
    guard.guardrail = Guardrail(guard, steady=lambda: now[0])
    call(service, "request", "late", ["a leader"])
    now[0] += guard.entry.guardrail_seconds - 1
    assert guard.guardrail.expire_calls() == 0
    assert guard.guardrail.waiting == 1
    now[0] += 1
    assert guard.guardrail.expire_calls() == 1
    until(lambda: not service.state("stories")["open"], "it stays open")
    assert call(service, "response", "late", ["an adult"]).json()["action"] == "BLOCKED"
    service.check_replay("stories")
    guard.guardrail.close()


def test_judges_and_classifiers_that_fail_block_and_tell_only_the_log(service):
    class Failing:
        def conditions(self, _prompt):
            raise ModelError("http://10.0.0.7/ is away")

        classify = conditions

    pipeline = service.guard("stories").pipeline
    with replaced(pipeline, "judge", Failing()):
        blocked = call(service, "request", "a", ["a leader"]).json()
    call(service, "request", "b", ["a leader"])
    with replaced(pipeline, "classifier", Failing()):
        after = call(service, "response", "b", ["an adult"]).json()
    assert blocked == {"action": "BLOCKED", "blocked_reason": "the judge failed"}
    assert after == {"action": "BLOCKED", "blocked_reason": "the classifier failed"}
    until(lambda: len(service.inputs("stories", "record")) == 2, "the log tells nothing")
    assert all("10.0.0.7" in one["note"]["reason"] for one in service.inputs("stories", "record"))
    assert not service.check_replay("stories").open
