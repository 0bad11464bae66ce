"""The hash by which CatBoost knows a category: the lower half of CityHash64, version 1.0 (Pike and Alakuijala 2011).

All arithmetic is modulo 2**64; words are read from the bytes of the text in UTF-8, lowest byte first.
"""

from __future__ import annotations

K0, K1, K2, K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
MULTIPLIER = 0x9DDFEA08EB382D69
WORD = 2**64 - 1


def hash_category(text: str) -> int:
    """Return the signed 32-bit number that stands for a category in CatBoost's files."""
    low = city_hash(text.encode("utf-8")) & 0xFFFFFFFF
    return low - 2**32 if low >= 2**31 else low


def city_hash(data: bytes) -> int:
    """Return CityHash64 of some bytes, from 0 to 2**64 - 1."""
    if len(data) <= 16:
        return _hash_to_16(data)
    if len(data) <= 32:
        return _hash_to_32(data)
    return _hash_to_64(data) if len(data) <= 64 else _hash_beyond_64(data)


def _hash_to_16(data: bytes) -> int:
    n = len(data)
    if n > 8:
        first, last = _word(data, 0), _word(data, n - 8)
        return _combine(first, _rotate((last + n) & WORD, n)) ^ last
    if n >= 4:
        return _combine((n + (_half(data, 0) << 3)) & WORD, _half(data, n - 4))
    if n == 0:
        return K2
    first = data[0] + (data[n >> 1] << 8)
    second = n + (data[-1] << 2)
    return _mix((first * K2 ^ second * K3) & WORD) * K2 & WORD


def _hash_to_32(data: bytes) -> int:
    n = len(data)
    a, b = _word(data, 0) * K1 & WORD, _word(data, 8)
    c, d = _word(data, n - 8) * K2 & WORD, _word(data, n - 16) * K0 & WORD
    return _combine((_rotate((a - b) & WORD, 43) + _rotate(c, 30) + d) & WORD, (a + _rotate(b ^ K3, 20) - c + n) & WORD)


def _hash_to_64(data: bytes) -> int:
    n = len(data)
    first = (_word(data, 0) + (n + _word(data, n - 16)) * K0) & WORD
    v = _hash_half(first, _word(data, 24), _word(data, 8), _word(data, 16))
    second = (_word(data, 16) + _word(data, n - 32)) & WORD
    w = _hash_half(second, _word(data, n - 8), _word(data, n - 24), _word(data, n - 16))
    mixed = _mix(((v[0] + w[1]) * K2 + (w[0] + v[1]) * K0) & WORD)
    return _mix((mixed * K0 + v[1]) & WORD) * K2 & WORD


def _hash_half(a: int, z: int, second: int, third: int) -> tuple[int, int]:
    b, c = _rotate((a + z) & WORD, 52), _rotate(a, 37)
    a = (a + second) & WORD
    c += _rotate(a, 7)
    a = (a + third) & WORD
    return (a + z) & WORD, (b + _rotate(a, 31) + c) & WORD


def _hash_beyond_64(data: bytes) -> int:
    """Hash the end first; then 64 bytes at a time change a state of v, w, x, y and z."""
    n = len(data)
    x, y, z = _word(data, 0), _word(data, n - 16) ^ K1, _word(data, n - 56) ^ K0
    v = _hash_32(data, n - 64, n, y)
    w = _hash_32(data, n - 32, n * K1 & WORD, K0)
    z = (z + _mix(v[1]) * K1) & WORD
    x = _rotate((z + x) & WORD, 39) * K1 & WORD
    y = _rotate(y, 33) * K1 & WORD
    for at in range(0, n - 1 & ~63, 64):
        x = _rotate((x + y + v[0] + _word(data, at + 16)) & WORD, 37) * K1 & WORD ^ w[1]
        y = _rotate((y + v[1] + _word(data, at + 48)) & WORD, 42) * K1 & WORD ^ v[0]
        z = _rotate(z ^ w[0], 33)
        v = _hash_32(data, at, v[1] * K1 & WORD, (x + w[0]) & WORD)
        w = _hash_32(data, at + 32, (z + w[1]) & WORD, y)
        z, x = x, z
    return _combine((_combine(v[0], w[0]) + _mix(y) * K1 + z) & WORD, (_combine(v[1], w[1]) + x) & WORD)


def _hash_32(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_word(data, at + 8 * i) for i in range(4))
    a = (a + w) & WORD
    b = _rotate((b + a + z) & WORD, 21)
    c = a
    a = (a + x + y) & WORD
    return (a + z) & WORD, (b + _rotate(a, 44) + c) & WORD


def _combine(low: int, high: int) -> int:
    a = (low ^ high) * MULTIPLIER & WORD
    b = (high ^ _mix(a)) * MULTIPLIER & WORD
    return _mix(b) * MULTIPLIER & WORD


def _mix(number: int) -> int:
    return number ^ number >> 47


def _rotate(number: int, bits: int) -> int:
    return (number >> bits | number << 64 - bits) & WORD


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _half(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")
