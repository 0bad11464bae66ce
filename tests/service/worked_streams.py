"""A service's streams of every kind with a little work done on them, for tests of what is read afterwards."""

from service_settings import LABELLED, PLAN

from evenhand.service import Ledger, ServiceConfig
from evenhand.service.api.context import build_streams

PARITY = {name: value for name, value in PLAN.items() if name != "kind"} | {"empty_group": "min_count=3"}
NURSES = {"name": "gender", "condition": "nurse", "group": "gender", "values": ["female", "male"], "repeated": 3}
SERVED = {
    "shields": [
        {"name": "loans", "plan": PARITY},
        {"name": "hiring", "plan": LABELLED},
        {"name": "greedy", "plan": {**PARITY, "kind": "greedy", "horizon": 12}},
        {"name": "periods", "plan": {**PARITY, "kind": "dynamic", "horizon": 7}},
        {"name": "advice", "plan": PARITY, "advisory": True},
    ],
    "guards": [
        {"name": "pictures", "config": {"conditions": [{"name": "nurse", "share": 1.0}], "specifications": [NURSES]}},
    ],
}


def open_worked(database, served=SERVED):
    """Open the ledger of these streams."""
    return Ledger(database, build_streams(ServiceConfig.read(served)).machines)


def work(ledger):
    """A little of everything that the streams take, an abandoned admission and repeated ids among it."""
    for name in ("loans", "hiring", "greedy", "periods", "advice"):
        for number in range(15):
            operation = {
                "op": "decide",
                "id": f"{name} {number}",
                "group": ["men", "women", "men"][number % 3],
                "recommendation": int(number % 3 != 1),
            }
            for _ in range(1 + (number == 4)):
                ledger.submit(name, operation, id=operation["id"]).result()
            if name == "hiring" and number % 2:
                ledger.submit(name, {"op": "label", "id": operation["id"], "label": number % 4 // 2}).result()

    def admit(replica):
        asked = {"op": "admit", "replica": replica, "conditions": ["nurse"], "fixed": []}
        return ledger.submit("pictures", asked, durable=False).result().number

    lost = admit("dead")
    for shown in ("female", "female", "male", None, "female", "female"):
        number = admit("alive")
        answer = {"outcome": {"admission": {}}}
        while answer["outcome"]["admission"] is not None:
            done = {"op": "complete", "admission": number, "values": {"gender": shown}}
            answer = ledger.submit("pictures", done).result().answer
    ledger.submit("pictures", {"op": "fail", "admission": admit("alive")}).result()
    abandoned = ledger.submit("pictures", {"op": "abandon", "replica": "dead"}).result().answer["abandoned"]
    assert list(abandoned) == [str(lost)]


STREAMS = [one["name"] for one in (*SERVED["shields"], *SERVED["guards"])]
