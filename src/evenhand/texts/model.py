"""A model of texts as something that can be asked: text in, labels or scores out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError, EvenhandError, ModelError
from evenhand.models.function import from_import
from evenhand.models.load import STORED, stored_object
from evenhand.models.replies import Reply, labelled, read_reply, scored
from evenhand.texts import http
from evenhand.texts.http import from_url

BATCH = 4096
"""Texts per call to a model."""


@dataclass(frozen=True, eq=False)
class TextModel:
    """What is called with a list of texts, and the labels that it is known to give.

    Attributes:
        ask: takes a list of texts, gives an array: labels, scores from 0 to 1, or one score per label.
        known: the labels, if the model names them from the start.
        name: how to call it in messages.
        batch: texts per call.
    """

    ask: Any
    known: tuple[Any, ...] | None
    name: str
    batch: int = BATCH

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels, if the model names them; a service may do so in its answers only."""
        return self.known or getattr(self.ask, "classes", None)

    def replies(self, texts: Sequence[str]) -> NDArray[np.generic]:
        """What the model says to each text, shape (n,) or (n, classes).

        Raises:
            ModelError: it fails, or does not reply once per text.
        """
        parts = [self._batch(list(texts[i : i + self.batch])) for i in range(0, len(texts), self.batch)]
        return np.concatenate(parts)

    def _batch(self, texts: list[str]) -> NDArray[np.generic]:
        try:
            reply = self.ask(texts)
        except EvenhandError:
            raise
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            raise ModelError(
                f"asked about a list of {len(texts):,} texts, the model fails: {type(error).__name__}: {first}",
                where=self.name,
                mend="a model of texts takes a list of texts and replies with one label or score for each",
            ) from error
        array = np.asarray(reply.detach().cpu() if hasattr(reply, "detach") else reply)
        if array.ndim not in (1, 2) or len(array) != len(texts):
            raise ModelError(
                f"asked about {len(texts):,} texts, the model replied with shape {array.shape}",
                where=self.name,
                mend="reply with one label or score per text, or with one score per label",
            )
        return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def load(source: Any, *, trust: bool = False) -> TextModel:
    """A model of texts: an object, a file that scikit-learn models are kept in, a URL, or ``module:function``.

    Args:
        source: an estimator or pipeline with ``predict_proba`` or ``predict``, or any function of a list of texts.
        trust: allow files that can run code when they are loaded.

    Raises:
        ModelError: there is no such model, or it is none of texts.
        TrustError: loading it could run code, and it is not trusted.
    """
    if isinstance(source, TextModel):
        return source
    name = str(source) if isinstance(source, str | Path) else getattr(source, "__name__", type(source).__name__)
    if isinstance(source, str) and re.match(r"https?://", source, re.IGNORECASE):
        endpoint = from_url(source)
        return TextModel(endpoint, None, endpoint.connection.name, http.BATCH)
    if isinstance(source, str) and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", source):
        source = from_import(source)
    elif isinstance(source, str | Path):
        path = Path(source)
        if path.suffix.lower() not in STORED:
            raise ModelError(
                "this is no model of texts",
                where=name,
                mend=f"give a scikit-learn pipeline in a file ({', '.join(STORED)}), a URL or module:function",
            )
        source = stored_object(path, trust=trust)
    classes = getattr(source, "classes_", None)
    known = None if classes is None else tuple(np.asarray(classes).tolist())
    if hasattr(source, "predict_proba"):
        return TextModel(source.predict_proba, known, name)
    if hasattr(source, "predict") and not isinstance(source, type):
        return TextModel(source.predict, known, name)
    if callable(source):
        return TextModel(source, None, name)
    raise ModelError(
        f"a {type(source).__name__} is no model of texts",
        where=name,
        mend="give an estimator with predict, or a function of a list of texts",
    )


def read(
    replies: NDArray[np.generic], model: TextModel, labels: Sequence[Any] | None, favourable: Any
) -> tuple[Reply, tuple[Any, ...], int]:
    """Replies as scores and labels, the labels' names, and the position of the favourable one.

    Labels come from ``labels``, else from the model, else from the replies: the distinct ones in order, or ``no`` and
    ``yes`` where these are scores. The favourable one is the last unless said otherwise.

    Raises:
        ModelError: the replies are no labels or scores.
    """
    # the same 0.0 or 1.0 for everything is a score too: as a label it would be the favourable one either way
    numbers = replies.dtype.kind == "f" and (
        not np.isin(replies, (0, 1)).all() or (favourable is None and len(np.unique(replies)) == 1)
    )
    if labels is not None:
        classes = tuple(labels)
    elif model.classes is not None:
        classes = model.classes
    elif replies.ndim == 2:
        classes = tuple(range(replies.shape[1]))
    elif numbers:
        classes = ("no", "yes")
    else:
        classes = tuple(sorted(set(replies.tolist()), key=lambda label: (type(label).__name__, label)))
    wanted = len(classes) - 1
    if favourable is not None:
        names = [str(label) for label in classes]
        if str(favourable) not in names:
            raise ModelError(
                f"the favourable label {favourable!r} is not among the labels {', '.join(names)}", where=model.name
            )
        wanted = names.index(str(favourable))
    if len(classes) == 1:  # it says the same to everything: a constant model
        return labelled(np.zeros(len(replies), dtype=np.int64), 1), classes, 0
    if replies.ndim == 2:
        return scored(replies.astype(np.float64), len(classes), where=model.name), classes, wanted
    return read_reply(replies, len(replies), classes, wanted, where=model.name), classes, wanted


def text_list(texts: Iterable[str]) -> list[str]:
    """Texts as a list.

    Raises:
        DataError: there are none, or something among them is no text.
    """
    if isinstance(texts, str):
        raise DataError("one text was given in place of many", mend="give a list of texts")
    found = list(texts)
    if not found:
        raise DataError("there are no texts")
    for row, text in enumerate(found):
        if not isinstance(text, str):
            raise DataError(f"row {row + 1}: {text!r} is no text", mend="leave rows without text out")
    return found
