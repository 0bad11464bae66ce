"""Monitors of the service: events over HTTP, of a shield, after restarts; figures, pages and webhooks."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families

from evenhand.errors import DataError, FetchError, OptionError
from evenhand.monitoring import Monitor, MonitorResult, write_state
from evenhand.service import ServiceConfig

WATCH = {
    "groups": {"by": ["sex"], "values": {"sex": ["female", "male"]}},
    "watch": [{"gap": "selection_rate", "tolerance": 0.02}],
    "seed": 1,
}
OF_SHIELD = {
    "groups": {"by": ["group"], "values": {"group": ["men", "women"]}},
    "watch": [{"gap": "selection_rate", "tolerance": 0.02}],
    "fields": {"decision": "recommendation"},
}


@pytest.fixture
def watched(described):
    """The service's file with a monitor of events and one of a shield."""
    described["monitors"] = [
        {"name": "hiring", "config": WATCH},
        {"name": "loans-gap", "config": OF_SHIELD, "shield": "loans"},
    ]
    return described


def events(n, *, seed=0, rates=(0.2, 0.5)):
    drawn = random.Random(seed)
    found = []
    for i in range(n):
        sex = drawn.choice(["female", "male"])
        found.append({"id": i, "sex": sex, "decision": int(drawn.random() < rates[sex == "male"])})
    return found


def state_of(client, name="hiring"):
    return write_state(client.app.state.context.monitors[name]._known.monitor)


def test_events_raise_an_alarm_once_and_after_a_restart_it_is_still_there(watched, serving_client):
    client = serving_client(ServiceConfig.read(watched))
    posted = [client.post("/v1/monitors/hiring/events", json={"events": events(500)}).json() for _ in range(3)]
    assert [one["decisions"] for one in posted] == [500, 1000, 1500]
    alarms = [alarm for one in posted for alarm in one["alarms"]]
    assert [alarm["direction"] for alarm in alarms] == ["below"]
    assert "selection rate of female is below that of male" in alarms[0]["text"]
    again = serving_client(ServiceConfig.read(watched))
    result = MonitorResult.from_json(again.get("/v1/monitors/hiring").text)
    assert result.decisions == 1500
    assert len(result.alarms) == 1
    whole = Monitor(WATCH)
    whole.add(events(500) * 3)
    assert write_state(whole) == state_of(again)


def test_a_batch_counts_once_however_often_it_is_sent_and_two_replicas_share_it(watched, serving_client):
    first, second = (serving_client(ServiceConfig.read(watched)) for _ in range(2))
    batches = [{"events": events(50, seed=number), "batch": f"b{number}"} for number in range(8)]

    def send(number):
        client = (first, second)[number % 2]
        return client.post("/v1/monitors/hiring/events", json=batches[number // 2]).json()["repeated"]

    with ThreadPoolExecutor(4) as pool:
        repeated = list(pool.map(send, range(16)))
    assert sum(repeated) == 8
    assert first.get("/v1/monitors/hiring").json()["decisions"] == 400
    assert second.get("/v1/monitors/hiring").json()["decisions"] == 400


def test_events_that_cannot_be_read_are_refused_and_none_is_taken(watched, serving_client):
    client = serving_client(ServiceConfig.read(watched))
    bad = [*events(5), {"sex": "male", "decision": "perhaps"}]
    answer = client.post("/v1/monitors/hiring/events", json={"events": bad})
    assert answer.status_code == 422
    assert "event 6: expected 0 or 1 in 'decision', got 'perhaps'" in answer.json()["error"]["message"]
    lone = client.post(
        "/v1/monitors/hiring/events",
        content=b'{"events": [{"sex": "\\ud800", "decision": 1}]}',
        headers={"content-type": "application/json"},
    )
    assert (lone.status_code, "half a character" in lone.text) == (422, True)
    assert client.get("/v1/monitors").json()["monitors"][0]["decisions"] == 0
    assert client.post("/v1/monitors/none/events", json={"events": []}).status_code == 404
    assert client.post("/v1/monitors/loans-gap/events", json={"events": []}).status_code == 422


def test_what_a_shield_decides_is_taken_once(watched, serving_client):
    client = serving_client(ServiceConfig.read(watched))
    drawn = random.Random(1)
    decisions = [
        {"id": str(i), "group": group, "recommendation": int(drawn.random() < {"women": 0.1, "men": 0.7}[group])}
        for i in range(600)
        for group in [drawn.choice(["women", "men"])]
    ]
    for start in range(0, 600, 200):
        client.post("/v1/shields/loans/decisions/batch", json={"decisions": decisions[start : start + 200]})
    monitor = client.app.state.context.monitors["loans-gap"]
    monitor.catch_up()
    assert monitor.catch_up() == 0
    result = client.get("/v1/monitors/loans-gap").json()
    assert result["decisions"] == 600
    assert [alarm["first"] for alarm in result["alarms"]] == ["men"]


def test_figures_name_no_group_and_the_page_stands_alone(watched, serving_client):
    client = serving_client(ServiceConfig.read(watched))
    client.post("/v1/monitors/hiring/events", json={"events": events(1500)})
    text = client.get("/metrics").text
    samples = {
        (one.name, *(one.labels[name] for name in ("monitor", "measure") if name in one.labels)): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if "monitor" in one.name
    }
    assert samples[("evenhand_monitor_alarms", "hiring")] == 1
    assert samples[("evenhand_monitor_decisions", "loans-gap")] == 0
    assert 0.2 < samples[("evenhand_monitor_gap", "hiring", "selection_rate gap")] < 0.4
    assert "female" not in text
    assert client.get("/v1/dashboard").json()["monitors"] == ["hiring", "loans-gap"]
    page = client.get("/monitors/hiring")
    assert "script" not in page.headers["content-security-policy"]
    assert "an alarm at decision" in page.text


def test_an_alarm_is_posted_until_somebody_takes_it(watched, serving_client, monkeypatch):
    watched["monitors"][0]["config"] = {**WATCH, "webhook": "http://127.0.0.1:9/hook"}
    taken, refusals = [], iter([True])

    def post(alarm, url, *, monitor):
        if next(refusals, False):
            raise FetchError("the webhook does not answer")
        taken.append((monitor, alarm.first, url))

    monkeypatch.setattr("evenhand.service.monitors.post_alarm", post)
    monkeypatch.setattr("evenhand.service.monitors.MonitorThread.start", lambda thread: None)
    client = serving_client(ServiceConfig.read(watched))
    client.post("/v1/monitors/hiring/events", json={"events": events(1500)})
    thread = client.app.state.context.monitor_thread
    for _ in range(3):
        thread.run_once()
    assert taken == [("hiring", "female", "http://127.0.0.1:9/hook")]


def test_another_configuration_needs_another_name(watched, serving_client):
    serving_client(ServiceConfig.read(watched))
    watched["monitors"][0]["config"] = {**WATCH, "watch": [{"gap": "selection_rate", "tolerance": 0.05}]}
    with pytest.raises(DataError, match="another configuration: watch"):
        serving_client(ServiceConfig.read(watched))


def test_a_monitor_of_no_shield_and_one_of_other_groups_are_refused(watched, serving_client):
    watched["monitors"][1]["shield"] = "loan"
    with pytest.raises(OptionError, match="there is no shield 'loan'"):
        ServiceConfig.read(watched)
    watched["monitors"][1] |= {"shield": "loans", "config": WATCH}
    with pytest.raises(OptionError, match="compares its groups"):
        serving_client(ServiceConfig.read(watched))
