"""Configurations: what is read, and what every fault says."""

import pytest
from genai_reference import read_config

from evenhand.errors import OptionError
from evenhand.genai import Enforcer, GenerationConfig, check_feasibility

SMALLEST = (
    "{conditions: [{name: leader, share: 0.8}], "
    "specifications: "
    "[{condition: leader, group: age, values: [child, adult, elderly, other], repeated: [5, 6, 6, 9]}], "
    "simulation: {generator: {age: [0.05, 0.85, 0.05, 0.05]}, obeys: 0.95, unrecognised: 0.02, retries: 2, slack: 1}}"
)


def described(**changes):
    """A configuration whose only specification is changed."""
    specification = {
        "condition": "leader",
        "group": "age",
        "values": ["child", "adult", "old"],
        "repeated": 6,
    } | changes
    return {
        "conditions": [{"name": "leader"}],
        "specifications": [{name: entry for name, entry in specification.items() if entry is not None}],
    }


def test_the_smallest_configuration(tmp_path):
    path = tmp_path / "genai.yaml"
    path.write_text(SMALLEST, encoding="utf-8")
    read = GenerationConfig.read(path)
    (requirement,) = read.requirements
    assert requirement.name == "leader: age"
    assert requirement.labels == ("child", "adult", "elderly", "other")
    assert requirement.repeated == (5, 6, 6, 9)
    assert read.conditions[0].share == 0.8
    assert read.simulation.generator == {"age": (0.05, 0.85, 0.05, 0.05)}
    assert (read.simulation.obeys, read.simulation.unrecognised) == (0.95, 0.02)
    assert (read.simulation.retries, read.simulation.slack, read.simulation.in_flight) == (2, 1, 1)
    assert check_feasibility(read).feasible


def test_deadlines_by_name():
    (requirement,) = GenerationConfig.read(described(repeated={"old": 9, "child": 5, "adult": 6})).requirements
    assert requirement.repeated == (5, 6, 9)


def test_paired_groups_are_taken_apart():
    read = read_config(
        {"age": ["young", "old"], "gender": ["female", "male"], "body": ["thin", "stout", "other"]},
        {"condition": "leader", "paired": ["age", "gender", "body"], "eventual": True},
    )
    assert [one.groups for one in read.requirements] == [("age", "gender"), ("age", "body"), ("gender", "body")]
    assert sum(len(one.labels) for one in read.requirements) == 4 + 6 + 6
    assert read.requirements[0].labels == ("young + female", "young + male", "old + female", "old + male")
    assert all(one.repeated is None for one in read.requirements)
    assert check_feasibility(read).feasible
    triple = read.model_copy(update={"specifications": (read.specifications[0].model_copy(update={"ways": 3}),)})
    (three,) = GenerationConfig.read(triple.model_dump(exclude_defaults=True)).requirements
    assert len(three.labels) == 12


FAULTS = [
    (described(conditon="leader", condition=None), "no entry 'conditon'|`condition` is missing", "condition"),
    (described(condition="boss"), "no condition 'boss'", "leader"),
    (described(values=["child"]), "two or more values", None),
    (described(values=["child", "child"]), "'child' is repeated", None),
    (described(values=["child", 3]), "expected text, got 3", "values"),
    (described(values=None), "values of the group 'age' are missing", "groups"),
    (described(repeated=None), "there is no requirement", "repeated"),
    (described(repeated=0), "at least 1, got 0", "repeated"),
    (described(repeated=True), "whole number of at least 1, got True", "repeated"),
    (described(repeated="often"), "whole number of at least 1, got 'often'", "repeated"),
    (described(repeated=[5, 6]), "expected 3 deadlines, one per value", "child, adult, old"),
    (described(repeated={"child": 5, "adult": 6}), "'old' has no deadline", None),
    (described(repeated={"child": 5, "adult": 6, "elder": 7}), "no value 'elder'", "child"),
    (described(group=None), "one group or several", "paired"),
    (described(ways=2), "for paired groups", "paired"),
    (described(group=None, values=None, paired=["age"]), "ways combines 2 groups, but 1 are named", None),
    (described() | {"conditions": []}, "1 or more entries, got 0", "conditions"),
    (described() | {"conditions": [{"name": "leader", "share": 1.5}]}, "got 1.5", None),
    (described() | {"conditions": [{"name": "leader"}, {"name": "leader"}]}, "'leader' is repeated", None),
    (described() | {"simulation": {"generator": {"sex": [0.5, 0.5]}}}, "no group 'sex'", "age"),
    (described() | {"simulation": {"generator": {"age": [0.5, 0.5]}}}, "expected 3 probabilities, one per value", None),
    (described() | {"simulation": {"generator": {"age": [0.5, 0.4, 0.3]}}}, "add up to 1.2", "add up to 1"),
    (described() | {"simulation": {"slack": -1}}, "expected a whole number .*, got -1", None),
    (described() | {"specifications": [described()["specifications"][0]] * 2}, "'leader: age' is repeated", None),
    ({"conditions": [{"name": "leader"}]}, "`specifications` is missing", "specifications"),
]


@pytest.mark.parametrize(("bad", "what", "hint"), FAULTS)
def test_a_fault_is_one_clear_error(bad, what, hint):
    with pytest.raises(OptionError, match=what) as caught:
        GenerationConfig.read(bad)
    assert caught.value.location or "missing" in caught.value.message
    if hint is not None:
        assert any(word in (caught.value.hint or "") for word in hint.split("|"))


def test_what_cannot_be_kept_names_the_values_at_fault():
    found = check_feasibility(
        GenerationConfig.read(described(values=["child", "adult", "old", "other"], repeated=[2, 9, 3, 50]))
    )
    assert not found.feasible
    assert found.specifications[0].faults == ("child", "adult", "old")
    assert "child within 2, adult within 9, old within 3" in found.reason
    assert found.specifications[0].method == "exact"


def test_slack_must_be_kept_too():
    tight = GenerationConfig.read(described(repeated=3))
    assert check_feasibility(tight).feasible
    found = check_feasibility(tight, slack=1)
    assert not found.feasible
    assert "slack of 1" in found.reason


def test_what_is_not_decided_is_not_called_infeasible():
    several = [
        {"condition": name, "group": "age", "repeated": deadlines}
        for name, deadlines in (("leader", [3, 9, 20, 30, 50]), ("poor", [4, 7, 20, 40, 50]))
    ]
    read = read_config({"age": list("abcde")}, *several, conditions=[{"name": "leader"}, {"name": "poor"}])
    found = check_feasibility(read)
    assert (found.verdict, found.feasible) == ("undecided", False)
    assert [one.verdict for one in found.specifications] == ["undecided", "undecided"]
    assert "not known" in found.reason
    assert "too large to be solved" in found.reason
    with pytest.raises(OptionError, match="it is not known whether this can be kept") as caught:
        Enforcer(read)
    # The hint is one that is known to be enough.
    assert "leader: age: repeated: [9, 9, 20, 30, 50]; poor: age: repeated: [9, 9, 20, 40, 50]" in str(caught.value)
    raised = [one | {"repeated": [max(9, d) for d in one["repeated"]]} for one in several]
    assert check_feasibility(GenerationConfig.read(read.model_dump() | {"specifications": raised})).feasible


def test_one_specification_may_be_undecided_too():
    values = [str(k) for k in range(25)]
    found = check_feasibility(GenerationConfig.read(described(values=values, repeated=[24, *[200] * 24])))
    assert found.verdict == "undecided"
    assert found.hint is not None
    assert "repeated: [25, 200" in found.hint
    infeasible = described(values=[*values, "x", "y"], repeated=[1, 1, *[200] * 25])
    assert check_feasibility(GenerationConfig.read(infeasible)).verdict == "infeasible"


def test_slack_that_is_not_decided():
    # Kept without slack; with one item less for each, the game is too large.
    values = [str(k) for k in range(25)]
    found = check_feasibility(GenerationConfig.read(described(values=values, repeated=[25, *[200] * 24])), slack=1)
    assert found.verdict == "undecided"
    assert "whether these can be kept is not known" in found.reason


def test_two_conditions_on_one_group_are_judged_together():
    two = described()["specifications"][0]
    both = {"conditions": [{"name": "leader"}, {"name": "poor"}]}

    def at(deadline):
        several = [two | {"condition": name, "repeated": deadline} for name in ("leader", "poor")]
        return check_feasibility(GenerationConfig.read(both | {"specifications": several}))

    assert not at(4).feasible
    assert "together" in at(4).reason
    assert at(5).feasible
    assert [one.method for one in at(6).specifications] == ["hall", "hall"]
