"""The container of a policy file: everything comes back, and nothing altered is read."""

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import DataError
from evenhand.shields.policy.file import pack_container, unpack_container

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
