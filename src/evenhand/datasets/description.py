"""What a reader should know about a data set before using it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from evenhand.schema import Value


class Card(BaseModel):
    """One data set in words.

    Attributes:
        name: what to ask for, as in ``datasets.load(name)``.
        title: its full name.
        about: who the people are and what is decided.
        origin: who collected it, where and when.
        publisher: the page it is published on.
        licence: terms of use as far as they are known.
        citation: how to cite it.
        rows: people in the frame.
        columns: the columns of the frame; those that are no attribute are in ``extra``.
        attributes: what a model may look at, in order.
        extra: columns kept beside the attributes (splits, weights, scores).
        protected: attributes that the field usually protects.
        target: the column of the true label.
        favourable: the label a person would want.
        preparation: what was changed, dropped or derived, and why.
        check: how the content is checked before it is used.
        sha256: SHA-256 of the prepared table written as CSV, where it is known beforehand.
        files: file names that are recognised, each also with ``.gz``, ``.xz``, ``.bz2`` or ``.zst``.
        urls: where it is fetched from, in the order tried.
        place: ``bundled`` with the package, ``here`` (found at ``path``), or ``to be fetched``.
        path: the file found, or where a file fetched by hand belongs; None if bundled.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    about: str
    origin: str
    publisher: str
    licence: str
    citation: str
    rows: int
    columns: tuple[str, ...]
    attributes: tuple[str, ...]
    extra: tuple[str, ...]
    protected: tuple[str, ...]
    target: str
    favourable: Value
    preparation: str
    check: str
    sha256: str | None
    files: tuple[str, ...]
    urls: tuple[str, ...]
    place: Literal["bundled", "here", "to be fetched"]
    path: str | None
