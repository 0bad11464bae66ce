"""/metrics counts what happened, says where the streams stand, and nothing that a caller sent becomes a label."""

import math

from prometheus_client.parser import text_string_to_metric_families

SECRET = "somebody-nobody-may-know"


def sampled(client):
    """Every sample by its name and labels."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.text)
    return {(one.name, *sorted(one.labels.items())): one.value for family in families for one in family.samples}, answer


def of(samples, name, **labels):
    return samples.get((name, *sorted(labels.items())))


def test_decisions_are_counted_and_the_bias_is_that_of_the_shield(client):
    body = {"id": "1", "group": "women", "recommendation": 1}
    for number in range(5):
        made = client.post("/v1/shields/finite/decisions", json={**body, "id": f"{SECRET} {number}"}).json()
    client.post("/v1/shields/finite/decisions", json={**body, "id": f"{SECRET} 4"})
    several = [{"id": f"b{number}", "group": "men", "recommendation": number % 2} for number in range(8)]
    answers = client.post("/v1/shields/loans/decisions/batch", json={"decisions": several}).json()["results"]
    samples, _ = sampled(client)
    assert of(samples, "evenhand_operations_total", stream="finite", op="decide") == 5
    decided = [of(samples, "evenhand_decisions_total", stream="loans", decision=one) or 0 for one in "01"]
    assert decided == [sum(one["decision"] == int(two) for one in answers) for two in "01"]
    assert of(samples, "evenhand_interventions_total", stream="loans") == sum(one["intervened"] for one in answers)
    assert of(samples, "evenhand_bias", stream="finite") == made["bias"]
    assert of(samples, "evenhand_bias_allowed", stream="finite") == 0.2
    assert of(samples, "evenhand_bias_bound", stream="finite") == made["certificate"]["bound"]
    assert math.isnan(of(samples, "evenhand_bias_bound_later", stream="finite"))
    assert math.isnan(of(samples, "evenhand_assumption_held", stream="finite"))
    assert of(samples, "evenhand_bias_bound_later", stream="loans") == 0.2
    assert of(samples, "evenhand_assumption_held", stream="loans") == 1
    assert of(samples, "evenhand_log_entries", stream="loans") == 8
    # Every operation is in one commit.
    assert of(samples, "evenhand_commit_operations_sum") >= 13
    assert of(samples, "evenhand_commit_seconds_count") == of(samples, "evenhand_commit_operations_count") > 1
    assert of(samples, "evenhand_waiting_operations") == 0


def test_guarded_requests_are_counted_with_their_deadlines(client):
    statuses = []
    for _ in range(3):
        answer = client.post("/v1/images/generations", json={"prompt": "a leader", "response_format": "b64_json"})
        statuses.append((answer.headers["x-evenhand-status"], answer.headers["x-evenhand-changed"]))
    samples, _ = sampled(client)
    assert of(samples, "evenhand_items_total", stream="studio", status="ok") == [ok for ok, _ in statuses].count("ok")
    assert of(samples, "evenhand_prompts_changed_total", stream="studio") == sum(one[1] == "true" for one in statuses)
    assert of(samples, "evenhand_upstream_seconds_count", stream="studio") == 3
    assert of(samples, "evenhand_guarding_seconds_count", stream="studio") == 3
    assert of(samples, "evenhand_open_admissions", stream="studio") == 0
    slack = [value for (name, *_), value in samples.items() if name == "evenhand_deadline_slack"]
    assert len(slack) == 2
    # The shortest deadlines are 4 and 5 items; three have passed, and the values due may have appeared.
    assert all(1 <= one <= 5 for one in slack)


def test_nothing_that_a_caller_sends_is_a_label(client):
    client.post(f"/v1/shields/{SECRET}/decisions", json={"id": SECRET, "group": SECRET, "recommendation": 1})
    client.post("/v1/shields/loans/decisions", json={"id": SECRET, "group": SECRET, "recommendation": 1})
    client.get(f"/{SECRET}")
    client.request(SECRET.upper(), "/healthz")
    client.post("/v1/images/generations", json={"prompt": SECRET, "model": SECRET})
    client.post("/v1/images/generations", json={"prompt": f"a leader {SECRET}", "user": SECRET})
    samples, answer = sampled(client)
    assert SECRET not in answer.text.lower()
    for method, route in (("POST", "/v1/shields/{name}/decisions"), ("GET", "none")):
        assert of(samples, "evenhand_http_requests_total", method=method, route=route, status="404") == 1


def test_every_counter_exists_before_anything_happens(client):
    samples, _ = sampled(client)
    metrics = client.app.state.context.metrics
    empty = [
        metric.name
        for metric in metrics.registry.collect()
        if metric.type in ("counter", "histogram") and not metric.samples
    ]
    assert empty in ([], ["evenhand_judge_answers"]), "an alert compares the first value with 0"
    for decision in ("0", "1"):
        assert of(samples, "evenhand_decisions_total", stream="loans", decision=decision) == 0
    for status in ("ok", "violation", "unguarded", "refused"):
        assert of(samples, "evenhand_items_total", stream="studio", status=status) == 0
    assert of(samples, "evenhand_interventions_total", stream="loans") == 0
    assert of(samples, "evenhand_upstream_seconds_count", stream="studio") == 0
    path = "/v1/images/generations"
    for status in ("200", "502", "503"):
        assert of(samples, "evenhand_http_requests_total", method="POST", route=path, status=status) == 0
