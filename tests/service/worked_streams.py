"""A service's streams of every kind with a little work done on them, for tests of what is read afterwards."""

from __future__ import annotations

from typing import Any

from evenhand.service import Ledger

GROUPS: dict[str, Any] = {
    "women": {"rate": 0.4, "accept": 0.35, "label": 0.5},
    "men": {"rate": 0.6, "accept": 0.6, "label": 0.5},
}
PARITY: dict[str, Any] = {
    "property": "demographic_parity",
    "kappa": "0.2",
    "horizon": 40,
    "empty_group": "min_count=3",
    "groups": {name: {"rate": one["rate"], "accept": one["accept"]} for name, one in GROUPS.items()},
}
OPPORTUNITY: dict[str, Any] = {"property": "equal_opportunity", "kappa": "0.2", "horizon": 20, "groups": GROUPS}
SERVED: dict[str, Any] = {
    "shields": [
        {"name": "loans", "plan": PARITY},
        {"name": "hiring", "plan": OPPORTUNITY},
        {"name": "greedy", "plan": {**PARITY, "kind": "greedy", "horizon": 12}},
        {"name": "periods", "plan": {**PARITY, "kind": "dynamic", "horizon": 7}},
        {"name": "advice", "plan": PARITY, "advisory": True},
    ],
    "guards": [
        {
            "name": "pictures",
            "config": {
                "conditions": [{"name": "nurse", "share": 1.0}],
                "specifications": [
                    {
                        "name": "gender",
                        "condition": "nurse",
                        "group": "gender",
                        "values": ["female", "male"],
                        "repeated": 3,
                    }
                ],
            },
        }
    ],
}


def work(ledger: Ledger) -> None:
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

    def admit(replica: str) -> int:
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


STREAMS: list[str] = [one["name"] for one in (*SERVED["shields"], *SERVED["guards"])]
