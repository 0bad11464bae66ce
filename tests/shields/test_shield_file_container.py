"""The container of a policy file: everything comes back, and nothing altered is read."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from evenhand.errors import DataError
from evenhand.shields.policy.file import ARRAY_TYPES, pack_container, unpack_container

HEAD = {"plan": {"property": "demographic_parity", "groups": {"Ä": 0.1}}, "expected_cost": 1.25}
ARRAYS = {"a": np.arange(24, dtype=np.int16).reshape(2, 3, 4), "b": np.array([0.1, np.inf, -0.0]), "c": np.zeros(0)}
WHOLE = pack_container(HEAD, ARRAYS)


def resealed(body):
    return body + hashlib.sha256(body).digest()


def rewritten(change):
    """A file whose description was changed and whose checksum fits again."""
    body = WHOLE[:-32]
    magic, head, rest = body.split(b"\n", 2)
    described = json.loads(head)
    change(described)
    return resealed(b"\n".join([magic, json.dumps(described).encode(), rest]))


def refused(data):
    with pytest.raises(DataError) as complaint:
        unpack_container(data, location="p.shield")
    assert complaint.value.location == "p.shield"
    assert complaint.value.hint
    return complaint.value.message


def test_what_was_packed_comes_back():
    head, found = unpack_container(WHOLE, location="p")
    assert head == HEAD
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_the_description_can_be_read_with_plain_tools():
    magic, described, _ = WHOLE.split(b"\n", 2)
    assert magic == b"EVENHAND shield 1"
    assert json.loads(described)["plan"] == HEAD["plan"]


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.sampled_from(ARRAY_TYPES).flatmap(lambda kind: arrays(np.dtype(kind), array_shapes(min_side=0, max_side=5))),
        max_size=3,
    ),
    st.dictionaries(st.text().filter(lambda key: key != "arrays"), st.integers() | st.text(), max_size=3),
)
@settings(deadline=None)
def test_any_arrays_come_back_exactly(given_arrays, head):
    found_head, found = unpack_container(pack_container(head, given_arrays), location="p")
    assert found_head == head
    assert {name: (array.dtype, array.shape, array.tobytes()) for name, array in found.items()} == {
        name: (array.dtype, array.shape, array.tobytes()) for name, array in given_arrays.items()
    }


def test_big_endian_numbers_are_written_like_others():
    big = {"a": np.arange(5, dtype=">i4")}
    assert pack_container({}, big) == pack_container({}, {"a": np.arange(5, dtype="<i4")})


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_any_altered_byte_is_found(at, change):
    altered = bytearray(WHOLE)
    altered[at] ^= change
    refused(bytes(altered))


def test_every_single_bit_is_guarded():
    for at in range(len(WHOLE)):
        for bit in range(8):
            altered = bytearray(WHOLE)
            altered[at] ^= 1 << bit
            with pytest.raises(DataError):
                unpack_container(bytes(altered), location="p")


def test_a_file_cut_short_anywhere_is_refused():
    for length in range(len(WHOLE)):
        what = refused(WHOLE[:length])
        if length > len(b"EVENHAND shield 1\n"):
            assert "cut short" in what


def test_bytes_after_the_end_are_refused():
    assert "3 bytes follow its end" in refused(WHOLE + b"\0\0\0")


def test_a_newer_file_says_so():
    assert "format 2" in refused(resealed(WHOLE[:-32].replace(b"shield 1", b"shield 2", 1)))


@pytest.mark.parametrize("data", [b"", b"PK\3\4", b"\x80\x04\x95pickle\n", b"EVENHAND certificate 1\n", b"\n" * 90])
def test_other_files_are_refused(data):
    assert "not a policy file" in refused(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head.pop("arrays"),
        lambda head: head.update(arrays={}),
        lambda head: head["arrays"].append(head["arrays"][0]),
        lambda head: head["arrays"][0].update(type="|O"),
        lambda head: head["arrays"][0].update(type=["<i2"]),
        lambda head: head["arrays"][0].update(shape=[-2, 12]),
        lambda head: head["arrays"][0].update(shape="24"),
        lambda head: head["arrays"][0].update(bytes=True),
        lambda head: head["arrays"][0].update(extra=1),
        lambda head: head["arrays"][0].update(shape=[25]),
        lambda head: head["arrays"][0].update(shape=[2**40, 2**40]),
        lambda head: head["arrays"][0].update(shape=[]),
        lambda head: head["arrays"][0].update(type="<f8"),
    ],
)
def test_descriptions_that_make_no_sense_are_refused_whatever_their_checksum(change):
    assert "not whole" in refused(rewritten(change))


def test_packed_numbers_that_unpack_to_something_else_are_refused():
    described = json.loads(WHOLE.split(b"\n", 2)[1])
    start = WHOLE.index(b"\n", 20) + 1
    length = described["arrays"][0]["bytes"]
    body = WHOLE[:start] + bytes(length) + WHOLE[start + length : -32]
    assert "'a'" in refused(resealed(body))


def test_only_plain_numbers_are_packed():
    with pytest.raises(TypeError):
        pack_container({}, {"a": np.array(["x"], dtype=object)})
