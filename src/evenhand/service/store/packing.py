"""How the store keeps texts and hashes small: bodies of entries deflated against a dictionary, hashes as bytes.

Entries of a log repeat the same names over and over, and are too short each to be compressed by themselves. So every
one is deflated against a text in which these names stand already (RFC 1950, section 2.2, calls it a preset dictionary):
what is left of it are its numbers, ids and hashes.
"""

from __future__ import annotations

import zlib
from typing import Any

from sqlalchemy import Dialect, LargeBinary, TypeDecorator

WINDOW_BITS = -15
"""Deflate without a header: the entry's own hash says whether it was damaged."""

MAX_UNPACKED_BYTES = 64 << 20
"""Of one text; more than any request may have."""

# What is likeliest to come stands last: what is near costs fewer bits. A changed text needs a new first byte.
_GUARD_WORDS = (
    '{"before":{},"digest":"","id":null,"input":{"note":{"attempts":[{"reason":"","values":{}}],"error":"","message":""'
    ',"records":1,"status":"unguarded","what":"lost"},"op":"record"},"output":{}}'
    '{"before":{},"input":{"note":{"configuration":{"classifier":{"kind":""},"conditions":[{"keywords":[],"name":"",'
    '"share":1.0}],"generator":{"kind":"","seed":0},"groups":{},"guard":{"instruction":{},"mode":"before","when_unsure"'
    ':"refuse"}},"evenhand":"","replica":"","what":"started"},"op":"record"},"output":{}}'
    '"op":"abandon","replica":""},"output":{"abandoned":{}}}"final":true,"op":"fail"},"withdrawn":true,'
    '"route":"texts","prompt_sha256":"","reason":"only  now lets every deadline be kept","status":"violation"'
    '"status":"retry"},"input":{"call":"","conditions":[""],"fixed":[],"note":{"prompt":"","route":"images"},"op":'
    '"admit","replica":""},"output":{"admission":{"allowed":{},"attempt":0,"counts":[""],"must":{},"reason":"","slots":'
    '{}}}}"input":{"admission":2,"call":"","note":{"answer":"","clause":"(showing: )","item":{"bytes":29392,'
    '"media_type":"image/png","sha256":""},"prompt":"","sent":""},"op":"complete","values":{"age":"","gender":'
    '"woman man"}},"output":{"outcome":{"admission":null,"reason":"","slots":{},"status":"ok"}}}'
)
_SHIELD_WORDS = (
    '"op":"unguarded","recommendation":1},"output":{"certificate":null,"decision":1,"guaranteed":false,"guarded":false,'
    '"intervened":false,"reason":"unguarded"}}"input":{"cost":1.0,"group":"","id":"","label":1,"op":"label"},"output":'
    '{"certificate":{"assumption_held":false,"bound":null,"bound_exact":null,"bound_later":null},'
    '{"before":{"counters":[0,0,0,0],"open":[0,0,0,0,0,0,0,0],"prompt":true,"recommended":[0,0],"step":1},"digest":"'
    '"reason":"would-accept","reason":"would-reject","reason":"rejected"}}'
    '"decision":1,"guaranteed":true,"intervened":true,"reason":"accepted"}}'
    '{"before":{"held":true,"now":{"counters":[10,3,12,4],"open":[0,0,0,0,0,0,0,0],"prompt":true,"recommended":[0,0],'
    '"step":22},"past":[0,0,0,0],"past_open":[0,0,0,0,0,0,0,0],"past_recommended":[0,0,0,0],"period":0,"prompt":true},'
    '"digest":"0123456789abcdef","id":"application 1","input":{"group":"women men","id":"application 1","op":"decide",'
    '"recommendation":0},"output":{"certificate":{"assumption_held":true,"attained":false,"bias":0.0,"bias_shielded":'
    '0.0,"bias_unshielded":0.0,"bound":0.1,"bound_exact":"1/10","bound_later":0.1,"open_labels":0,"period":0,"step":1,'
    '"terms":"0123456789abcdef"},"decision":0,"guaranteed":true,"intervened":false,"reason":"followed"}}'
)
DICTIONARY = (_GUARD_WORDS + _SHIELD_WORDS).encode()
"""The words that entries begin with, as it were; what was packed with it can be read with it alone."""

FIRST_BYTE = b"\x01"
"""Which dictionary a text was packed with; there is one."""


def pack_text(text: str) -> bytes:
    """Return a text, deflated against the dictionary, behind a byte that names it."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, WINDOW_BITS, 8, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
    return FIRST_BYTE + deflate.compress(text.encode()) + deflate.flush()


def unpack_text(data: bytes) -> str:
    """Return the text that was packed.

    Raises:
        ValueError: it was changed, or packed by a newer version.
    """
    if data[:1] != FIRST_BYTE:
        raise ValueError("this was packed with a dictionary that is not known here")
    inflate = zlib.decompressobj(WINDOW_BITS, DICTIONARY)
    try:
        text = inflate.decompress(data[1:], MAX_UNPACKED_BYTES)
    except zlib.error as error:
        raise ValueError(f"this was changed: {error}") from None
    if not inflate.eof or inflate.unused_data:
        raise ValueError("this was cut off, or something was put behind it")
    return text.decode()


class PackedText(TypeDecorator[str]):
    """A column of texts that are packed. One that was changed so that it cannot be unpacked is read as an empty text,
    neither an entry nor an answer: its hash shows it, as it shows any other change."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        return None if value is None else pack_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        if value is None:
            return None
        try:
            return unpack_text(bytes(value))
        except ValueError:
            return ""


class HexBytes(TypeDecorator[str]):
    """A column of hashes: texts of hexadecimal digits, kept as half as many bytes."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        return None if value is None else bytes.fromhex(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else bytes(value).hex()
