"""A log gives the same decisions again, or the first that differs is named."""

import json
import random

import pytest
from naive_shield import plan, policy

from evenhand import view
from evenhand.errors import DataError
from evenhand.shields import PeriodicShield, Shield, read_log, replay_log


def logged(shield, number=20, labelled=False, seed=1):
    rng, log = random.Random(seed), []
    for i in range(number):
        entry = {"id": f"p{i}", "group": rng.choice("ab"), "recommendation": rng.randint(0, 1), "cost": 1.0}
        made = shield.decide(entry["group"], entry["recommendation"], entry["cost"], entry["id"])
        log.append({**entry, "decision": made.decision, "intervened": made.intervened, "time": "12:00"})
        if labelled and i % 3:
            label = rng.randint(0, 1)
            shield.observe(f"p{i}", label)
            log.append({"id": f"p{i}", "label": label})
    return log


SHIELDS = {
    "finite": lambda: Shield(policy(horizon=20)),
    "advisory": lambda: Shield(policy(horizon=20), advisory=True),
    "labels": lambda: Shield(policy("equal_opportunity", horizon=20, kappa="0.1")),
    "periods": lambda: Shield(PeriodicShield(plan(horizon=7, plan_kind="dynamic"))),
}


@pytest.mark.parametrize("which", SHIELDS)
def test_the_same_again(which, tmp_path):
    shield = SHIELDS[which]()
    log = logged(shield, labelled=which == "labels")
    path = tmp_path / "decisions.jsonl"
    path.write_text("\n".join(json.dumps(entry) for entry in log) + "\n\n", "utf-8")
    found = replay_log(SHIELDS[which](), read_log(path))
    assert found.difference is None
    assert (found.decisions, found.labels) == (20, len(log) - 20)
    assert found.shield.state() == shield.state()
    assert "Identical: 20 decisions" in str(found)


@pytest.mark.parametrize("which", SHIELDS)
def test_every_changed_decision_is_found(which):
    log = logged(SHIELDS[which](), labelled=which == "labels")
    for number, entry in enumerate(log, start=1):
        if "label" in entry:
            continue
        for change in ({"decision": 1 - entry["decision"]}, {"intervened": not entry["intervened"]}):
            changed = [dict(each) for each in log]
            changed[number - 1] |= change
            assert replay_log(SHIELDS[which](), changed).difference.entry == number


def test_what_a_shield_refuses_is_a_difference():
    log = logged(SHIELDS["labels"](), labelled=True)
    for change, words in (
        ({"group": "c"}, "unknown group"),
        ({"id": "p0"}, "already"),
        ({"recommendation": 7}, "not 0 or 1"),
    ):
        number = 6
        changed = [dict(each) for each in log]
        changed[number - 1] |= change
        found = replay_log(SHIELDS["labels"](), changed)
        assert found.difference.entry == number
        assert words in view.summarize(found.document())
    # An entry left out, or a label of nobody.
    assert replay_log(SHIELDS["labels"](), [{"id": "p1", "label": 1}]).difference.entry == 1
    finite = logged(SHIELDS["finite"]())
    assert replay_log(SHIELDS["finite"](), [*finite, {**finite[0], "id": "more"}]).difference.entry == 21


def test_a_log_that_begins_later_needs_the_state():
    shield = SHIELDS["finite"]()
    logged(shield, 8)
    state = shield.state()
    rest = [{"group": group, "recommendation": 1, "decision": shield.decide(group, 1).decision} for group in "abbababb"]
    assert replay_log(Shield.restore(policy(horizon=20), state), rest).difference is None
    assert replay_log(SHIELDS["finite"](), rest).shield.state() != shield.state()


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "line 1"), ("[1]", "not a JSON object"), ('{"id": 1, "label": 1}\nnothing', "line 2")],
)
def test_files_that_are_no_logs(text, words, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(DataError, match=words):
        list(read_log(path))


def test_no_file():
    with pytest.raises(DataError, match="cannot be read"):
        list(read_log("nowhere.jsonl"))


@pytest.mark.parametrize(
    ("entry", "words"), [({"group": "a"}, "recommendation"), ({"label": 1}, "'id'"), ("text", "not an entry")]
)
def test_entries_that_are_none(entry, words):
    with pytest.raises(DataError, match=words):
        replay_log(SHIELDS["finite"](), [entry])


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_log_ends_lines_at_line_feeds_alone(tmp_path, separator, mark):
    entries = [{"id": f"a{separator}b", "label": 1}, {"id": "c", "label": 0}]
    log = tmp_path / "log.jsonl"
    text = "\r\n".join(json.dumps(entry, ensure_ascii=ord(separator) < 32) for entry in entries)
    log.write_text(mark + text + "\r\n", "utf-8", newline="")
    assert list(read_log(log)) == entries
