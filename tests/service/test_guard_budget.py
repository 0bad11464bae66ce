"""What a guard spends on its generator, in the log, in metrics and against its budget."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

httpx = pytest.importorskip("httpx", reason="needs httpx")

from in_thread import running, until
from service_settings import guard_ages, keyless

from evenhand.errors import DecisionError
from evenhand.genai.backends.studio import Studio
from evenhand.service.generation.guards import build_guard_machine
from evenhand.service.settings import ServedGuardConfig
from evenhand.service.state_machines import to_micro
from genai_upstream import Upstream
from support import scaled

CONFIG = {name: value for name, value in guard_ages().items() if name != "classifier"}


def machine():
    return build_guard_machine(ServedGuardConfig(name="guard", config=CONFIG), Path())


def admit(at, reserve, **caps):
    budget = {"hour": at, "caps": caps, "reserve": reserve}
    return {"op": "admit", "replica": "a", "conditions": ["leader"], "budget": budget}


def complete(number, cost, hour, value="adult"):
    return {"op": "complete", "admission": number, "values": {"age": value}, "final": True, "cost": cost, "hour": hour}


def test_amounts_are_rounded_up():
    amounts = {0.04: 40_000, 0.0000001: 1, 0: 0, 1.0000001: 1_000_001, 0.1 + 0.2: 300_000}
    assert [*map(to_micro, amounts)] == [*amounts.values()]


def test_an_hour_ends_and_a_day_does_after_24_of_them():
    kept = machine()
    kept.apply(admit(100, 40, hour=100, day=150), 1)
    kept.apply(complete(1, 70, 100), 2)
    with pytest.raises(DecisionError, match=r"the budget of the hour.*is spent") as refused:
        kept.apply(admit(100, 40, hour=100, day=150), 3)
    assert refused.value.code == "budget"
    kept.apply(admit(101, 40, hour=100, day=150), 3)
    kept.apply(complete(3, 40, 101), 4)
    with pytest.raises(DecisionError, match="the budget of the day"):
        kept.apply(admit(123, 50, hour=100, day=150), 5)
    kept.apply(admit(124, 50, hour=100, day=150), 5)


def test_what_is_under_way_is_set_aside():
    kept = machine()
    kept.apply(admit(1, 60, hour=100), 1)
    with pytest.raises(DecisionError, match="reserved for running requests"):
        kept.apply(admit(1, 60, hour=100), 2)
    kept.apply(complete(1, 20, 1), 2)
    kept.apply(admit(1, 60, hour=100), 3)
    kept.apply({"op": "abandon", "replica": "a"}, 4)
    kept.apply(admit(1, 60, hour=100), 5)


STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50), st.integers(0, 100), st.booleans()), max_size=60)


@settings(max_examples=scaled(80), deadline=None)
@given(steps=STEPS, hour_cap=st.integers(50, 200), day_cap=st.integers(50, 400))
def test_caps_are_never_passed_and_a_state_goes_on_as_json(steps, hour_cap, day_cap):
    """Whatever is admitted, completed and given up, in whatever hours: no window has more in it than its cap."""
    kept, hour, number, opened = machine(), 0, 0, []
    spent = []
    for later, reserve, share, ends in steps:
        hour += later
        number += 1
        if ends and opened:
            which, reserved = opened.pop(0)
            cost = reserved * share // 100
            kept.apply(complete(which, cost, hour), number)
            spent.append((hour, cost))
        else:
            try:
                kept.apply(admit(hour, reserve, hour=hour_cap, day=day_cap), number)
                opened.append((number, reserve))
            except DecisionError:
                number -= 1
        other = machine()
        other.load(json.loads(json.dumps(kept.state())))
        assert other.state() == kept.state()
        kept = other
        assert sum(cost for at, cost in spent if at > hour - 24) <= day_cap
    # What was admitted in one hour and completed in the next counts there, where it was not set aside any more.
    assert all(sum(cost for at, cost in spent if at == one) <= 2 * hour_cap for one, _ in spent)


# ---- the service


def described(folder, upstream, **guard):
    generator = {"kind": "images", "url": upstream.url, "model": "m"}
    config = guard_ages(generator, guard=guard, simulation={"retries": 2})
    return keyless(folder, guards=[{"name": "guard", "config": config}])


def ask(url):
    return httpx.post(f"{url}/v1/images/generations", json={"prompt": "a leader"}, timeout=30)


def test_costs_are_in_answers_the_log_and_metrics_and_a_cap_refuses(tmp_path):
    bias = {"age": {"adult": 1}}
    with Upstream(Studio(bias, seed=1)) as upstream:
        made = described(tmp_path, upstream, price={"item": 0.04}, budget={"hour": 0.6, "day": 0.6}, candidates=2)
        with running(made) as service:
            answers = []
            while not answers or answers[-1].status_code == 200:
                answers.append(ask(service.url))
            last = answers.pop()
            assert last.status_code == 429
            assert last.json()["error"]["code"] == "budget"
            assert 1 <= int(last.headers["retry-after"]) <= 3600
            assert last.headers["x-should-retry"] == "false"
            until(lambda: service.guard("guard").limiter.work_count == 0, "it is under way")
            until(lambda: not service.guard("guard").retry_queue.waiting, "something waits")
            told = sum(answer.json()["data"][0]["evenhand"]["cost"] for answer in answers)
            entries = service.inputs("guard")
            logged = sum(one.get("cost", 0) for one in entries)
            unused = [one for one in entries if one.get("note", {}).get("what") == "unused"]
            assert unused
            assert logged == to_micro(told) + sum(one["cost"] for one in unused)
            pictures = sum(one.get("n", 1) for one in upstream.asked("/images/generations"))
            assert logged == to_micro(0.04) * pictures <= to_micro(0.6)
            assert sum(cost for _, cost in service.state("guard")["spent"]) == logged
            service.check_replay("guard")
            text = httpx.get(f"{service.url}/metrics").text
            assert 'evenhand_generator_cost_total{stream="guard",used="yes"}' in text
            assert 'evenhand_generator_cost_by_value_total{group="age",stream="guard",value="elderly"}' in text
            # A cap counts what was spent before a restart.
        with running(made) as again:
            assert ask(again.url).status_code == 429


def test_a_request_that_is_too_dear_is_refused_and_its_slot_given_up(tmp_path):
    with Upstream(Studio({"age": {"adult": 1}}, obeys=0.0)) as upstream:
        made = described(tmp_path, upstream, price={"item": 0.04}, budget={"request": 0.05})
        with running(made) as service:
            answers = [ask(service.url) for _ in range(4)]
            refused = [answer for answer in answers if answer.status_code != 200]
            assert refused
            assert {answer.status_code for answer in refused} == {429}
            assert "the budget of a request, 0.05" in refused[0].json()["error"]["message"]
            assert refused[0].headers["x-evenhand-status"] == "refused"
            kept = service.check_replay("guard")
            assert not kept.open
            assert kept.enforcer.counts["leader: age"]["missed"] == 0
