"""Shields over HTTP: decisions, batches, labels, where they stand, their logs; and everything that makes no sense."""

import json
from itertools import product

import pytest

from evenhand.errors import StoreError
from evenhand.service import ServiceConfig
from evenhand.shields import PeriodicShield, Shield, read_plan

LOANS = "/v1/shields/loans/decisions"


def person(id, group="women", recommendation=1, **more):
    return {"id": id, "group": group, "recommendation": recommendation, **more}


def fault(answer):
    return answer.json()["error"]


def test_it_decides_as_the_shield_alone_would(client, described):
    alone = Shield(PeriodicShield(read_plan(described["shields"][0]["plan"])))
    for k in range(90):
        group, recommendation = ("women", int(k % 5 == 0)) if k % 2 else ("men", int(k % 3 > 0))
        answer = client.post(LOANS, json=person(k, group, recommendation))
        made = alone.decide(group, recommendation)
        said = answer.json()
        assert answer.headers["x-evenhand-guarded"] == "true"
        assert (said["decision"], said["intervened"], said["reason"]) == (made.decision, made.intervened, made.reason)
        assert said["explanation"] == made.reason.words
        assert said["number"] == k + 1
        assert said["certificate"] == alone.certificate().to_dict()
        assert said["bias"] == float(alone.certificate().bias)
    assert alone.interventions > 0
    stands = client.get("/v1/shields/loans").json()
    assert stands["interventions"] == alone.interventions
    assert stands["cost"] == alone.cost
    assert stands["counters"] == alone.counts()
    assert stands["certificate"] == said["certificate"]


def test_the_same_id_has_one_answer(client):
    first = client.post(LOANS, json=person("a"))
    again = client.post(LOANS, json=person("a"))
    assert again.json() == first.json()
    assert (first.headers["x-evenhand-repeated"], again.headers["x-evenhand-repeated"]) == ("false", "true")
    assert client.get("/v1/shields/loans").json()["number"] == 1
    other = client.post(LOANS, json=person("a", recommendation=0))
    assert other.status_code == 409
    assert fault(other)["code"] == "repeated"
    assert fault(other)["hint"]


@pytest.mark.parametrize(
    ("body", "status", "code", "said"),
    [
        (person("a", "children"), 422, "group", "unknown group 'children'"),
        (person("a", recommendation=2), 422, "request", "recommendation"),
        (person("a", cost=-1), 422, "request", "cost"),
        (person("a", cost=1.5), 422, "cost", "from 0 to 1"),
        (person(""), 422, "request", "id"),
        (person("x" * 191), 422, "request", "id"),
        (person("a\n"), 422, "request", "id"),
        (person(1.5), 422, "request", "id"),
        (person(None), 422, "request", "id"),
        (person("a", "x" * 201), 422, "request", "group"),
        (person("a", csot=1), 422, "request", "csot: there is no such entry"),
        ({"id": "a", "group": "women"}, 422, "request", "recommendation: this is missing"),
        ([], 422, "request", ""),
        (" " * 10_000_001, 413, "size", ""),
    ],
)
def test_what_makes_no_sense_is_refused_and_counts_nothing(client, body, status, code, said):
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    answer = client.post(LOANS, content=content, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert fault(answer)["code"] == code
    assert said in fault(answer)["message"]
    assert client.get("/v1/shields/loans").json()["number"] == 0


def test_refuses_without_the_store_and_decides_once_when_it_is_back(client, monkeypatch):
    def fail(**_options):
        raise StoreError("the store failed: no space left")

    with monkeypatch.context() as outage:
        outage.setattr(client.app.state.context.database, "transaction", fail)
        refused = client.post(LOANS, json=person("1"))
        batch = client.post(f"{LOANS}/batch", json={"decisions": [person("2")]}).json()
    assert refused.status_code == 503
    assert "x-evenhand-guarded" not in refused.headers
    assert batch["results"][0]["error"]["type"] == "server_error"
    assert [client.post(LOANS, json=person("1")).json()["number"] for _ in range(2)] == [1, 1]


def test_there_is_no_such_shield(client):
    bodies = {"/decisions": person("a"), "/labels": {"id": "a", "label": 1}}
    for name, path in product(["none", "studio", "evenhand:keys", "%00", "x" * 5_000], ["", *bodies]):
        body = bodies.get(path)
        answer = client.request("GET" if body is None else "POST", f"/v1/shields/{name}{path}", json=body)
        assert answer.status_code == 404, (name, path, answer.text)
        assert fault(answer)["code"] == "stream"
        assert fault(answer)["hint"] == "one of: loans, finite, labelled"


def test_past_its_horizon_a_finite_shield_says_what_to_do(client):
    for k in range(6):
        assert client.post("/v1/shields/finite/decisions", json=person(k)).status_code == 200
    late = client.post("/v1/shields/finite/decisions", json=person(6))
    assert late.status_code == 409
    assert fault(late)["code"] == "horizon"
    assert "new name" in fault(late)["hint"]
    assert client.post("/v1/shields/finite/decisions", json=person(5)).status_code == 200, "a repeated one is answered"
    stands = client.get("/v1/shields/finite").json()
    assert stands["certificate"]["attained"]
    assert stands["bias"] <= 0.2


def test_a_batch_has_a_result_for_each(client):
    asked = [person("a"), person("b", "children"), person("a"), person("a", recommendation=0), person("c", "men", 0)]
    answer = client.post(f"{LOANS}/batch", json={"decisions": asked})
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [one["id"] for one in results] == ["a", "b", "a", "a", "c"]
    assert [one.get("number") for one in results] == [1, None, 1, None, 2]
    assert [one.get("repeated") for one in results] == [False, None, True, None, False]
    assert [one["error"]["code"] for one in results if "error" in one] == ["group", "repeated"]
    single = client.post(LOANS, json=person("a")).json()
    assert single == {key: value for key, value in results[0].items() if key != "repeated"}


def test_labels_follow_their_decisions(client, described):
    alone = Shield.restore(*_labelled(described))
    labels = "/v1/shields/labelled/labels"
    unknown = client.post(labels, json={"id": "a", "label": 1})
    assert unknown.status_code == 404
    assert fault(unknown)["code"] == "unknown-id"
    client.post("/v1/shields/labelled/decisions", json=person("a"))
    alone.decide("women", 1, id="a")
    first = client.post(labels, json={"id": "a", "label": 1})
    alone.observe("a", 1)
    assert first.json()["certificate"] == alone.certificate().to_dict()
    again = client.post(labels, json={"id": "a", "label": 1})
    assert again.json() == first.json()
    assert again.headers["x-evenhand-repeated"] == "true"
    other = client.post(labels, json={"id": "a", "label": 0})
    assert other.status_code == 409
    assert fault(other)["code"] == "contradiction"
    useless = client.post("/v1/shields/loans/labels", json={"id": "a", "label": 1})
    assert useless.status_code == 422
    assert fault(useless)["code"] == "label"


def _labelled(described):
    from evenhand.shields import synthesize

    policy = synthesize(read_plan(described["shields"][2]["plan"]))
    return policy, Shield(policy).state()


def test_labels_that_come_late_are_counted_and_the_guarantee_says_so(client, described):
    alone = Shield.restore(*_labelled(described))
    people = [("women", 1), ("men", 0), ("men", 1), ("women", 0), ("men", 1), ("women", 1), ("men", 0), ("men", 1)]
    for k, (group, recommendation) in enumerate(people):
        said = client.post("/v1/shields/labelled/decisions", json=person(k, group, recommendation)).json()
        made = alone.decide(group, recommendation, id=str(k))
        assert (said["decision"], said["guaranteed"]) == (made.decision, made.guaranteed)
        if k >= 3:
            label = int(k % 3 == 0)
            client.post("/v1/shields/labelled/labels", json={"id": k - 3, "label": label})
            alone.observe(str(k - 3), label)
    stands = client.get("/v1/shields/labelled").json()
    assert stands["certificate"] == alone.certificate().to_dict()
    assert stands["certificate"]["open_labels"] == 3
    assert stands["bound"] == stands["certificate"]["bound"]


def test_all_shields_and_one(client, described):
    client.post(LOANS, json=person("a"))
    found = client.get("/v1/shields").json()["shields"]
    assert [one["name"] for one in found] == ["loans", "finite", "labelled"]
    assert [one["number"] for one in found] == [1, 0, 0]
    for about, entry in zip(found, described["shields"], strict=True):
        plan = read_plan(entry["plan"])
        assert about["kind"] == plan.kind
        assert about["property"] == plan.property.words()
        assert about["groups"] == ["women", "men"]
        assert about["labels"] == plan.property.labelled
        assert about["bound"] == about["certificate"]["bound"] == 0.2
        one = client.get(f"/v1/shields/{entry['name']}").json()
        assert {key: value for key, value in one.items() if key != "counters"} == about


def test_costs_are_needed_where_there_are_several(described, serving_client):
    plan = {**described["shields"][1]["plan"], "horizon": 8, "costs": [1.0, 2.5]}
    for group in ("women", "men"):
        weights = {"costs_if_rejected": [0.5, 0.5], "costs_if_accepted": [0.5, 0.5]}
        plan["groups"] = {**plan["groups"], group: {**plan["groups"][group], **weights}}
    described["shields"] = [{"name": "costly", "plan": plan}]
    client = serving_client(ServiceConfig.read(described))
    about = client.get("/v1/shields/costly").json()
    assert (about["cost_needed"], about["largest_cost"]) == (True, 2.5)
    missing = client.post("/v1/shields/costly/decisions", json=person("a"))
    assert fault(missing)["code"] == "cost"
    assert client.post("/v1/shields/costly/decisions", json=person("a", cost=2)).status_code == 200
    assert fault(client.post("/v1/shields/costly/decisions", json=person("b", cost=3)))["code"] == "cost"


def test_an_advisory_shield_says_that_it_is_not_in_force(described, serving_client):
    described["shields"] = [{**described["shields"][1], "advisory": True}]
    client = serving_client(ServiceConfig.read(described))
    answers = [client.post("/v1/shields/finite/decisions", json=person(k, "men", 1)) for k in range(3)]
    assert {answer.headers["x-evenhand-guarded"] for answer in answers} == {"false"}
    said = [answer.json() for answer in answers]
    assert all(one["decision"] == 1 and not one["guarded"] and not one["guaranteed"] for one in said)
    assert "would-reject" in {one["reason"] for one in said}
    assert client.get("/v1/shields/finite").json()["bound"] is None


def test_keeps_the_request_id(client, caplog):
    for body in (person("a"), person("a", "x")):
        answer = client.post(LOANS, json=body, headers={"x-request-id": "order-17/a"})
        assert answer.headers["x-request-id"] == "order-17/a"
    assert [record.about["request"] for record in caplog.records if hasattr(record, "about")] == ["order-17/a"]
    assert client.get("/healthz", headers={"x-request-id": "a b"}).headers["x-request-id"] != "a b"
