"""Where two configurations differ, in words."""

from evenhand.service.store.transaction import describe_differences


def test_entries_are_named_with_what_they_were_and_are():
    before = {"guard": {"mode": "before"}, "specifications": [{"repeated": [6, 5]}], "old": 1}
    now = {"guard": {"mode": "after"}, "specifications": [{"repeated": [6, 7]}], "new": "x" * 100}
    said = describe_differences(before, now)
    assert 'guard.mode was "before" and is "after"' in said
    assert "specifications.0.repeated.1 was 5 and is 7" in said
    assert "old was 1 and is not there" in said
    assert said.endswith("and 1 more")
    assert describe_differences({}, {"new": "x" * 100}).endswith("...")


def test_lists_of_different_lengths_are_shown_whole():
    assert describe_differences([1], [1, 2]) == "it was [1] and is [1, 2]"


def test_equal_ones_do_not_differ():
    assert describe_differences({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}) == ""
