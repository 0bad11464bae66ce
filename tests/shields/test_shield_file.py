"""Files of shields: what is written comes back, and damage is refused."""

import hashlib
import json
import math
import zlib
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shield_reference import plan, stored

from evenhand.errors import DataError, OptionError
from evenhand.shields import ShieldPolicy, load_policy, save_policy, synthesize, synthesize_separable
from evenhand.shields.policy.file import pack_container, policy_from_bytes, policy_to_bytes, unpack_container
from evenhand.shields.policy.tables import PackedTable, state_start


def with_costs(**changes):
    even = {"costs_if_rejected": [0.25, 0.5, 0.25], "costs_if_accepted": [0.5, 0.25, 0.25]}
    groups = {"a": {"rate": 0.4, "accept": 0.3, **even}, "Ä b": {"rate": 0.6, "accept": 0.7, **even}}
    return plan(costs=[0.1, 0.3, 0.9], groups=groups, **changes)


PLANS = {
    "parity": plan(),
    "ratio, carried over": plan(property="disparate_impact", kappa="0.5", start={"a": [3, 1], "b": [4, 2]}),
    "opportunity": plan(property="equal_opportunity", horizon=7, empty_group="min_count=2"),
    "costs, anytime": with_costs(empty_group="min_count=4", checks="anytime"),
    "one decision": plan(horizon=1),
    "long": plan(horizon=40),
}


@cache
def policy_of(name):
    """The policy for one of the plans: made when it is asked for, not when tests are collected."""
    return synthesize(PLANS[name])


@pytest.fixture(params=PLANS)
def policy(request):
    return policy_of(request.param)


def states(plan):
    """Every time and state before the horizon."""
    for t in range(plan.horizon):
        for n_a in range(t + 1):
            for n_b in range(t - n_a + 1) if plan.property.labelled else [t - n_a]:
                for a in range(n_a + 1):
                    for b in range(n_b + 1):
                        yield t, (n_a, a, n_b, b)


def same(one, other):
    fields = ("plan", "expected_cost", "states", "peak_bytes", "seconds")
    assert all(getattr(one, field) == getattr(other, field) for field in fields)
    assert one.actions.form == other.actions.form
    assert stored(one) == stored(other)


def test_the_same_policy_comes_back(policy, tmp_path):
    size = save_policy(policy, tmp_path / "policy.shield")
    assert size == (tmp_path / "policy.shield").stat().st_size
    found = load_policy(tmp_path / "policy.shield")
    same(found, policy)
    for t, counters in states(policy.plan):
        for group in (0, 1):
            assert found.action(t, counters, group) == policy.action(t, counters, group)
    assert [path.name for path in tmp_path.iterdir()] == ["policy.shield"]


def test_the_same_policy_gives_the_same_bytes(policy):
    assert policy_to_bytes(policy_from_bytes(policy_to_bytes(policy))) == policy_to_bytes(policy)


def test_separate_tables_of_several_groups_come_back():
    groups = {name: {"rate": 0.25, "accept": accept} for name, accept in zip("abcd", (0.3, 0.4, 0.5, 0.6), strict=True)}
    policy = synthesize_separable(plan(kind="static-bw", kappa="0.2", groups=groups))
    assert len(policy.actions.tables) == 4
    same(policy_from_bytes(policy_to_bytes(policy)), policy)


def test_listed_states_of_three_groups_come_back():
    groups = {name: {"rate": 1 / 3, "accept": accept} for name, accept in zip("abc", (0.3, 0.5, 0.7), strict=True)}
    policy = synthesize(plan(horizon=6, kappa="0.4", groups=groups))
    assert policy.actions.form == "listed"
    found = policy_from_bytes(policy_to_bytes(policy))
    same(found, policy)
    assert found.actions.level(3, (1, 1, 1, 0, 1, 0), 2) == policy.actions.level(3, (1, 1, 1, 0, 1, 0), 2)
    assert all(map(np.array_equal, found.actions.states, policy.actions.states))


def test_greedy_shields_have_no_table_and_no_expected_cost():
    policy = synthesize(plan(kind="greedy", start={"a": [2, 1]}))
    found = policy_from_bytes(policy_to_bytes(policy))
    assert found.plan == policy.plan
    assert found.actions == policy.actions
    assert math.isnan(found.expected_cost)


def packed(policy):
    """The same decisions, stored state by state."""
    plan = policy.plan
    cells = [np.zeros(-(-state_start(plan.horizon, plan.property.labelled) * 2 // 8), dtype=np.uint8) for _ in range(2)]
    table = PackedTable(plan.horizon, plan.property.labelled, 1, tuple(cells))
    return ShieldPolicy(plan, table, policy.expected_cost, policy.states, policy.peak_bytes, policy.seconds)


@given(st.data())
def test_packed_tables_come_back_exactly(data):
    policy = packed(policy_of("parity"))
    for cells in policy.actions.cells:
        drawn = np.frombuffer(data.draw(st.binary(min_size=cells.size, max_size=cells.size)), dtype=np.uint8)
        # With one cost there are three levels: the fourth that two bits can say becomes the third.
        cells[:] = drawn & ~((drawn & 0b10101010) >> 1)
    same(policy_from_bytes(policy_to_bytes(policy)), policy)


@pytest.mark.slow
def test_thresholds_beyond_one_byte_come_back():
    policy = synthesize(plan(horizon=256, kappa="1", empty_group="min_count=128"))
    assert policy.actions.positions[0].dtype == np.uint16
    same(policy_from_bytes(policy_to_bytes(policy)), policy)


@cache
def stored_policy(name):
    return policy_to_bytes(policy_of(name))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda head: head.pop("plan"), "'plan' is missing"),
        (lambda head: head["plan"].update(horizon=41), "its plan needs a table of shape (2, 12341)"),
        (lambda head: head["plan"].update(horizon=10**6), "its plan needs"),
        (lambda head: head["plan"].update(horizon=-1), "horizon: expected a whole number of at least 1, got -1"),
        (lambda head: head["plan"].update(property="equal_opportunity"), "its plan needs"),
        (lambda head: head["plan"].update(costs=[0.1, 0.2], cost=1), "both `cost` and `costs`"),
        (lambda head: head.update(plan=3), ""),
        (lambda head: head.update(form="pickle"), "'pickle' is missing or unknown"),
        (lambda head: head.update(form=["thresholds"]), ""),
        (lambda head: head.update(form="packed"), "its plan needs"),
        (lambda head: head.update(states="many"), "'many' is not a valid value"),
        (lambda head: head.update(expected_cost=-1), "-1 is not a valid value"),
        (lambda head: head.update(seconds=True), "True is not a valid value"),
    ],
)
def test_files_that_contradict_themselves_are_refused_whatever_their_checksum(change, complaint):
    head, parts = unpack_container(stored_policy("long"), location="p")
    change(head)
    with pytest.raises(DataError, match="is inconsistent") as refusal:
        policy_from_bytes(pack_container(head, parts))
    assert complaint in refusal.value.message


def test_missing_and_damaged_tables_are_refused():
    head, parts = unpack_container(stored_policy("parity"), location="p")
    other = unpack_container(stored_policy("long"), location="p")[1]
    bomb = zlib.compress(bytes(10**6))
    for wrong, complaint in (
        (parts[:1], "it has 1 tables, but its plan needs 2"),
        (parts + parts, "it has 4 tables, but its plan needs 2"),
        ([parts[0][:-1], parts[1]], "its plan needs a table of shape"),
        ([bytes(len(parts[0])), parts[1]], "its plan needs a table of shape"),
        ([parts[0] + b"more", parts[1]], "its plan needs a table of shape"),
        ([other[0], parts[1]], "its plan needs a table of shape"),
        ([parts[0], bomb], "its plan needs a table of shape"),
    ):
        with pytest.raises(DataError, match="is inconsistent") as refusal:
            policy_from_bytes(pack_container(head, wrong))
        assert complaint in refusal.value.message


def test_places_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        load_policy(tmp_path / "nothing.shield")
    with pytest.raises(DataError, match="cannot be read"):
        load_policy(tmp_path)
    with pytest.raises(OptionError, match="cannot be written"):
        save_policy(policy_of("parity"), tmp_path / "no folder" / "p.shield")
    assert not list(tmp_path.iterdir())


def refused_table(policy, number, change):
    """Change a table of a file, and return the error."""
    head, parts = unpack_container(policy_to_bytes(policy), location="p")
    table = np.frombuffer(zlib.decompress(parts[number]), dtype=np.int8).copy()
    parts[number] = zlib.compress(change(table).tobytes())
    with pytest.raises(DataError, match="is inconsistent") as refused:
        policy_from_bytes(pack_container(head, parts))
    return refused.value.message


def test_levels_that_no_cost_has_are_refused():
    groups = {name: {"rate": 1 / 3, "accept": accept} for name, accept in zip("abc", (0.3, 0.5, 0.7), strict=True)}
    ones = packed(policy_of("parity"))
    separate = synthesize_separable(plan(kind="static-bw", kappa="0.2", groups=groups))
    listed = synthesize(plan(horizon=5, kappa="0.4", groups=groups))
    for policy, number in ((ones, 0), (ones, 1), (separate, 2), (listed, 0)):
        assert "its levels are not all between" in refused_table(
            policy, number, lambda table: table * 0 + table.dtype.type(99)
        )


def test_thresholds_that_do_not_ascend_are_refused():
    def turned(steps):
        steps[1] = -steps[0]
        steps[0] = 1
        return steps

    policy = synthesize(plan(horizon=30))
    assert policy.actions.form == "thresholds"
    assert "its thresholds are not ascending" in refused_table(policy, 0, turned)


HEAD = {"plan": {"property": "demographic_parity", "groups": {"Ä": 0.1}}, "expected_cost": 1.25}
PARTS = [b"first table", b"", bytes(range(30))]
WHOLE = pack_container(HEAD, PARTS)


def resealed(body):
    return body + hashlib.sha256(body).digest()


def rewritten(change):
    """Change the description of a file, and correct its checksum."""
    magic, head, rest = WHOLE[:-32].split(b"\n", 2)
    described = json.loads(head)
    change(described)
    return resealed(b"\n".join([magic, json.dumps(described).encode(), rest]))


def refused(data):
    with pytest.raises(DataError) as complaint:
        unpack_container(data, location="p.shield")
    assert complaint.value.location == "p.shield"
    assert complaint.value.hint
    return complaint.value.message


@given(
    st.lists(st.binary(max_size=20), max_size=3),
    st.dictionaries(st.text().filter(lambda key: key != "bytes"), st.integers() | st.text(), max_size=3),
)
@settings(deadline=None)
def test_any_parts_come_back_exactly(parts, head):
    assert unpack_container(pack_container(head, parts), location="p") == (head, parts)


def test_every_single_bit_is_guarded():
    for at in range(len(WHOLE)):
        for bit in range(8):
            altered = bytearray(WHOLE)
            altered[at] ^= 1 << bit
            refused(bytes(altered))


def test_a_file_cut_short_anywhere_is_refused():
    for length in range(len(WHOLE)):
        what = refused(WHOLE[:length])
        if length > len(b"EVENHAND shield 2\n"):
            assert "truncated" in what


def test_bytes_after_the_end_are_refused():
    assert "3 bytes follow its end" in refused(WHOLE + b"\0\0\0")


def test_another_format_says_so():
    assert "format 3" in refused(resealed(WHOLE[:-32].replace(b"shield 2", b"shield 3", 1)))


@pytest.mark.parametrize("data", [b"", b"PK\3\4", b"\x80\x04\x95pickle\n", b"EVENHAND certificate 1\n", b"\n" * 90])
def test_other_files_are_refused(data):
    assert "not a policy file" in refused(data)


@pytest.mark.parametrize(
    "lengths", [None, {}, 41, ["11", 0, 30], [11, -1, 31], [True, 0, 40], [11.0, 0, 30], [11, 0, 29], [2**70], [2**39]]
)
def test_lengths_that_make_no_sense_are_refused_even_with_a_correct_checksum(lengths):
    assert "is damaged" in refused(rewritten(lambda head: head.update(bytes=lengths)))
    assert "is damaged" in refused(rewritten(lambda head: head.pop("bytes")))
