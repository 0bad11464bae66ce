"""Certificates by reference: what those of many decisions have in common is kept once, under its hash.

An entry has the numbers of its certificate, and in place of the rest `terms`, the SHA-256 of the rest's canonical text.
The entry's own hash covers that reference, so terms that are changed later are not those that the entry names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, select

from evenhand.errors import StoreError
from evenhand.service.store.chain import canonical_json
from evenhand.service.store.tables import certificates

COUNTED_ENTRIES = frozenset(
    {
        "step",
        "period",
        "bias",
        "bias_shielded",
        "bias_unshielded",
        "open_labels",
        "expired_labels",
        "bound",
        "bound_exact",
        "bound_later",
        "attained",
        "assumption_held",
    }
)
"""Entries of a certificate that decisions change."""

TERMS = "terms"
"""The entry that stands for all others."""


@lru_cache(maxsize=256)
def _texts_of_terms(names: tuple[str, ...], values: tuple[Any, ...]) -> tuple[str, str]:
    """Return the canonical text of terms, and its hash: those of one certificate are mostly those of the last."""
    terms = canonical_json({name: one for name, (_, one) in zip(names, values, strict=True)})
    return terms, hash_terms(terms)


def pack_output(output: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return an output with its certificate by reference, and the text of the terms; empty if it has no certificate."""
    certificate = output.get("certificate")
    if not certificate:
        return output, ""
    names, values, counted = [], [], {}
    for name, one in certificate.items():
        if name in COUNTED_ENTRIES:
            counted[name] = one
        else:
            names.append(name)
            # A number and a truth value are equal, and not the same in a text.
            values.append((one.__class__, one))
    try:
        terms, found = _texts_of_terms(tuple(names), tuple(values))
    except TypeError:  # Something in it is not a plain value.
        terms = canonical_json({name: one for name, (_, one) in zip(names, values, strict=True)})
        found = hash_terms(terms)
    return {**output, "certificate": {TERMS: found, **counted}}, terms


def hash_terms(terms: str) -> str:
    """Return what entries call these terms."""
    return hashlib.sha256(terms.encode()).hexdigest()


def referenced_terms(output: Mapping[str, Any]) -> str | None:
    """Return the hash of the terms that an output names; None if it has its certificate itself, or none at all."""
    certificate = output.get("certificate")
    return certificate.get(TERMS) if isinstance(certificate, Mapping) else None


def read_terms(connection: Connection, hashes: Collection[str]) -> dict[str, str]:
    """Return the text of terms by hash, of those that are there."""
    found = connection.execute(select(certificates).where(certificates.c.hash.in_(hashes)))
    return {row.hash: row.terms for row in found}


def unpack_output(connection: Connection, output: dict[str, Any]) -> dict[str, Any]:
    """Return an output with its whole certificate.

    Raises:
        StoreError: the store does not have what it names.
    """
    wanted = referenced_terms(output)
    if wanted is None:
        return output
    terms = read_terms(connection, [wanted]).get(wanted)
    if terms is None or hash_terms(terms) != wanted:
        raise StoreError(
            f"the terms {wanted[:12]} of a certificate are {'missing' if terms is None else 'not what they were'}",
            hint="something else changed the store; `evenhand replay --store URL` says what differs",
        )
    counted = {name: one for name, one in output["certificate"].items() if name != TERMS}
    return {**output, "certificate": dict(sorted({**json.loads(terms), **counted}.items()))}
