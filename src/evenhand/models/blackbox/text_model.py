"""A model of texts as something that can be asked: text in, labels or scores out."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.http import redact_url
from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import BudgetError, DataError, EvenhandError, LimitError, ModelError
from evenhand.models.blackbox.estimator import is_repeatable, nested_parts
from evenhand.models.blackbox.http_endpoint import EXPECTED_FORMAT, ModelConnection
from evenhand.models.blackbox.hugging_face import is_text_classifier, read_text_classifier
from evenhand.models.importing import import_object
from evenhand.models.language.scorer import TEXT_QUESTIONS, open_text_file
from evenhand.models.ledger import QuestionLedger
from evenhand.models.load import OBJECT_LOADERS, load_stored_object
from evenhand.models.noise import CHECKED, FIRST, NoiseCheck
from evenhand.models.outputs import OutputKind, read_outputs
from evenhand.models.replies import Reply, label_reply, numeric_outputs, read_reply
from evenhand.models.scorer import check_finite
from evenhand.stats.proportion import observed_rate
from evenhand.stats.quantity import Observed
from evenhand.stats.repetition import Repetition, confirm_repeats

TextFlip: TypeAlias = tuple[tuple[str, str], tuple[str, str]]
"""Two texts, each with its label."""

CHECK_SHARE = 0.1
"""Of a time limit no more than this goes into asking some texts twice, if that takes more than one batch."""

TEXT_BATCH = 4096
"""Texts per call to a model."""


REPLY_HINT = "let the model reply with labels, or with probabilities of the favourable label"


@dataclass(frozen=True, eq=False)
class TextModel:
    """What is called with a list of texts, and the labels that it is known to give.

    Attributes:
        ask: takes a list of texts, gives an array: labels, scores from 0 to 1, or one score per label.
        known: the labels, if the model names them from the start.
        name: how to call it in messages.
        batch: texts per call.
        ledger: counts the texts that an endpoint was sent; None for a model in this process.
        can_vary: whether it may answer differently when it is asked again.
    """

    ask: Any
    known: tuple[Any, ...] | None
    name: str
    batch: int = TEXT_BATCH
    ledger: QuestionLedger | None = None
    can_vary: bool = True

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels, if the model names them; a service may do so in its answers only."""
        return self.known or getattr(self.ask, "classes", None)

    def replies(self, texts: Sequence[str]) -> NDArray[np.generic]:
        """Return what the model says to each text, shape (n,) or (n, classes).

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
                location=self.name,
                hint="a model of texts takes a list of texts and replies with one label or score for each",
            ) from error
        array = np.asarray(reply.detach().cpu() if hasattr(reply, "detach") else reply)
        if array.ndim not in (1, 2) or len(array) != len(texts):
            raise ModelError(
                f"asked about {len(texts):,} texts, the model replied with shape {array.shape}",
                location=self.name,
                hint="reply with one label or score per text, or with one score per label",
            )
        return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def load_text_model(source: Any, *, trust: bool = False) -> TextModel:
    """Return a model of texts: an object, a file of scikit-learn's, a folder, a URL, or ``module:function``.

    Args:
        source: an estimator or pipeline with ``predict_proba`` or ``predict``, any function of a list of texts, or the
            folder of a text classifier that transformers saved (``config.json``, safetensors, tokenizer), or the
            ``.yaml`` file of a language model.
        trust: allow files that can run code when they are loaded.

    Raises:
        ModelError: there is no such model, or it does not take texts.
        TrustError: loading it could run code, and it is not trusted.
    """
    if isinstance(source, TextModel):
        return source
    name = str(source) if isinstance(source, str | Path) else getattr(source, "__name__", type(source).__name__)
    if isinstance(source, str) and re.match(r"https?://", source, re.IGNORECASE):
        endpoint = connect_text_model(source)
        return TextModel(endpoint, None, endpoint.connection.name, BATCH, endpoint.connection.ledger)
    if isinstance(source, str) and re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", source):
        source = import_object(source)
    elif isinstance(source, str | Path):
        path = Path(source)
        if is_text_classifier(path):
            classifier = read_text_classifier(path)
            return TextModel(classifier, classifier.classes, name, can_vary=False)
        if path.suffix.lower() in (".yaml", ".yml"):
            asker = open_text_file(path)
            return TextModel(asker, asker.classes, path.name, TEXT_QUESTIONS, asker.ledger, asker.can_vary)
        if path.suffix.lower() not in OBJECT_LOADERS:
            raise ModelError(
                "this is not a model of texts",
                location=name,
                hint=f"give a scikit-learn pipeline in a file ({', '.join(OBJECT_LOADERS)}), a folder of a "
                "Hugging Face text classifier, the .yaml of a language model, a URL or module:function",
            )
        source = load_stored_object(path, trust=trust)
    classes = getattr(source, "classes_", None)
    known = None if classes is None else tuple(np.asarray(classes).tolist())
    if hasattr(source, "predict_proba"):
        return TextModel(source.predict_proba, known, name, can_vary=not is_repeatable(source))
    if hasattr(source, "predict") and not isinstance(source, type):
        return TextModel(source.predict, known, name, can_vary=not is_repeatable(source))
    if callable(source):
        return TextModel(source, None, name)
    raise ModelError(
        f"a {type(source).__name__} is not a model of texts",
        location=name,
        hint="give an estimator with predict, or a function of a list of texts",
    )


def reads_texts(model: Any) -> bool:
    """Return whether a scikit-learn model splits texts into words before anything else: it cannot take rows."""
    model = getattr(model, "best_estimator_", model)
    parts = nested_parts(model)
    return reads_texts(parts[0][1]) if parts else hasattr(model, "build_analyzer")


def interpret_replies(
    replies: NDArray[np.generic], model: TextModel, labels: Sequence[Any] | None, favourable: Any
) -> tuple[Reply, tuple[Any, ...], int]:
    """Interpret replies as scores and labels, the labels' names, and the position of the favourable one.

    Labels come from ``labels``, else from the model, else from the replies: the distinct ones in order, or ``no`` and
    ``yes`` where these are scores. The favourable one is the last unless said otherwise.

    Raises:
        ModelError: the replies are not labels or scores.
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
                f"the favourable label {favourable!r} is not among the labels {', '.join(names)}", location=model.name
            )
        wanted = names.index(str(favourable))
    if len(classes) == 1:  # it says the same to everything: a constant model
        return label_reply(np.zeros(len(replies), dtype=np.int64), 1), classes, 0
    outputs = numeric_outputs(replies, len(replies), classes, location=model.name)
    if outputs is None:
        return read_reply(replies, len(replies), classes, wanted, location=model.name), classes, wanted
    check_finite(outputs, location=model.name)
    unknown = np.full(len(outputs), -1, dtype=np.int64)
    # A model of texts replies with probabilities: the same one for every text is one too.
    stated: OutputKind | None = (
        "probability" if outputs.shape[1] == 1 and 0 < outputs.min() == outputs.max() < 1 else None
    )
    reading = read_outputs(
        outputs, unknown, classes, wanted, wanted, stated=stated, location=model.name, hint=REPLY_HINT
    )
    return reading.reply(outputs, classes, wanted, location=model.name), classes, wanted


def check_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts as a list.

    Raises:
        DataError: there are none, or something among them is not text.
    """
    if isinstance(texts, str):
        raise DataError("one text was given in place of many", hint="give a list of texts")
    found = list(texts)
    if not found:
        raise DataError("there are no texts")
    for row, text in enumerate(found):
        if not isinstance(text, str):
            raise DataError(f"row {row + 1}: {text!r} is not text", hint="leave rows without text out")
    return found


# The answers of a model of texts, each text asked about once.


class TextAnswers:
    """What a model said about texts so far: each is asked about once, as long as there is time and budget.

    Args:
        model: who is asked.
        labels, favourable: the labels and the favourable one, as far as the caller knows them.
        limit: when nothing more is asked.
        budget: texts that may be asked about; None: any number.

    Attributes:
        stopped: whether a limit or an interrupt ended all asking.
        interrupted: whether that was an interrupt.
    """

    def __init__(
        self,
        model: TextModel,
        labels: Sequence[Any] | None,
        favourable: Any,
        limit: TimeLimit = NEVER,
        budget: int | None = None,
    ) -> None:
        self.model, self.labels, self.favourable = model, labels, favourable
        if model.ledger is not None:
            model.ledger.budget = budget
        self.limit, self.budget = limit, budget
        self.stopped = self.interrupted = False
        self._position: dict[Hashable, int] = {}
        self._replies: list[NDArray[np.generic]] = []
        self._read: tuple[int, tuple[Reply, tuple[Any, ...], int]] | None = None

    def __len__(self) -> int:
        return len(self._position)

    @property
    def queries(self) -> int:
        """Texts that the model was asked about; those of an endpoint as it counts them."""
        return len(self) if self.model.ledger is None else self.model.ledger.sent

    @property
    def left(self) -> float:
        """Number of texts that may still be asked about."""
        return 0 if self.stopped else np.inf if self.budget is None else max(0, self.budget - self.queries)

    @contextmanager
    def within(self, share: float) -> Iterator[None]:
        """Keep back all but a share of the budget and of the time limit for questions that come later."""
        limit, budget = self.limit, self.budget
        self.limit, self.budget = limit.share(share), None if budget is None else int(share * budget)
        try:
            yield
        finally:
            self.limit, self.budget, self.stopped = limit, budget, False

    def ask(self, texts: Iterable[str], progress: Callable[[float], None] = lambda share: None) -> None:
        """Ask about those that were not asked about yet; a limit or an interrupt ends all asking."""
        new = [text for text in dict.fromkeys(texts) if text not in self._position]
        self._ask(new, new, progress)

    def ask_again(self, texts: Sequence[str]) -> Integers:
        """Ask about each text once more, whatever is known; return where its answer stands, -1 where it has none.

        The last text is asked about first: a generator that is seeded per call would repeat its numbers by position.
        """
        keys = [(len(self._position), i) for i in range(len(texts))]
        self._ask(keys[::-1], texts[::-1], lambda share: None)
        return np.array([self._position.get(key, -1) for key in keys], dtype=np.int64)

    def check_noise(self, texts: Iterable[str], *, confidence: float = 0.95) -> NoiseCheck | None:
        """Ask about some texts twice and count changed labels, as ``models.check_noise`` does of people.

        Args:
            texts: in random order; at most ``CHECKED`` of them, as many as a twentieth of the budget pays for, and
                after the first few none once a tenth of the time has passed.
            confidence: of the interval.

        Returns:
            The counts; None for a model that computes the same answer every time, or if nothing was asked twice.
        """
        if not self.model.can_vary:
            return None
        most = CHECKED if self.budget is None else min(CHECKED, self.budget // 40)
        checked = list(dict.fromkeys(texts))[:most]
        limit, at, step = self.limit.share(CHECK_SHARE), 0, FIRST
        pairs: list[Integers] = []
        while at < len(checked) and not self.stopped and not (at and limit.passed()):
            part = checked[at : at + step]
            self.ask(part)
            pairs.append(np.stack([self.positions(part), self.ask_again(part)]))
            at, step = at + len(part), 2 * step
        both = np.concatenate([np.empty((2, 0), dtype=np.int64), *pairs], axis=1)
        first, again = both[:, (both >= 0).all(axis=0)]
        if not len(first):
            return None
        labels = self.answers()[0].labels
        rate = observed_rate(int((labels[first] != labels[again]).sum()), len(first), confidence)
        assert isinstance(rate, Observed)
        changed = round(rate.value * rate.n)
        return NoiseCheck(people=rate.n, changed=changed, rate=rate, queries=rate.n)

    def confirm_flips(self, flips: Sequence[TextFlip], *, confidence: float = 0.95) -> tuple[Repetition, int]:
        """Ask again about both texts of each flip, and test whether the two labels repeat (see ``stats.repetition``).

        Args:
            flips: Pairs of texts with their labels, most important first.
            confidence: 1 minus the false discovery rate.

        Returns:
            Which flips are confirmed, as far as budget and time limit go, and the number of texts asked about.
        """
        queries, direction = 0, 1

        def repeat(which: Integers) -> Booleans:
            nonlocal queries, direction
            sides = [side for k in which.tolist() for side in flips[k]]
            # Each round reverses the order: a generator that is seeded per call would repeat its answers by position.
            positions = self.ask_again([text for text, _ in sides[::direction]])[::direction]
            direction = -direction
            queries += int((positions >= 0).sum())
            reply, classes, _ = self.answers()
            same = [
                at >= 0 and str(classes[reply.labels[at]]) == label
                for at, (_, label) in zip(positions.tolist(), sides, strict=True)
            ]
            return np.asarray(np.array(same, dtype=np.bool_).reshape(-1, 2).all(axis=1))

        repetition = confirm_repeats(
            repeat,
            len(flips),
            confidence=confidence,
            affordable=lambda: self.left / 2,
            step=max(1, self.model.batch // 2),
            limit=self.limit,
        )
        return repetition, queries

    def _ask(self, keys: Sequence[Hashable], texts: Sequence[str], progress: Callable[[float], None]) -> None:
        new = list(zip(keys, texts, strict=True))
        affordable = new if self.budget is None else new[: max(0, self.budget - self.queries)]
        batch = self.model.batch
        try:
            for start in range(0, len(affordable), batch):
                if self.stopped or self.limit.passed():
                    self.stopped = True
                    return
                progress(start / len(affordable))
                part = affordable[start : start + batch]
                self._replies.append(self.model.replies([text for _, text in part]))
                self._position.update({key: len(self._position) + i for i, (key, _) in enumerate(part)})
        except BudgetError:
            self.stopped = True  # further tries after failures cost more than was foreseen
        except KeyboardInterrupt:
            self.stopped = self.interrupted = True
        self.stopped |= len(affordable) < len(new)

    def positions(self, texts: Iterable[str]) -> Integers:
        """Return where the answer about each text stands in ``answers``; -1 where it was not asked about."""
        return np.array([self._position.get(text, -1) for text in texts], dtype=np.int64)

    def answers(self) -> tuple[Reply, tuple[Any, ...], int]:
        """Return all answers, the labels' names, and the position of the favourable one.

        Raises:
            LimitError: there is none.
            ModelError: they are not labels or scores.
        """
        if not self._replies:
            raise LimitError("the search was stopped before anything was asked", hint="give it more time or budget")
        if self._read is None or self._read[0] != len(self._replies):
            found = interpret_replies(np.concatenate(self._replies), self.model, self.labels, self.favourable)
            self._read = len(self._replies), found
        return self._read[1]


# A model of texts behind an HTTP endpoint.
#
# Wire format. Evenhand sends ``POST`` with a JSON body, at most 1,000 texts per request::
#
#     {"instances": [{"text": "I have two children."}, {"text": "I have three."}]}
#
# and expects a status 2xx and as many predictions, in the same order::
#
#     {"predictions": [...]}
#
# where every prediction is one of
#
# - a label: ``"toxic"``, ``1``, ``true``;
# - the score of the favourable label, from 0 to 1 (two labels only; above 1/2 it is given): ``0.73``;
# - one score per label, adding up to 1, always in the same order: ``[0.27, 0.73]``;
# - an object with ``label``, ``scores`` or both. There, scores may also name their labels:
#   ``{"label": "toxic", "scores": {"fine": 0.27, "toxic": 0.73}}``; the label must be the one with the highest score.
#
# All predictions are of the same kind. Credentials, time-outs and further tries are as for a model of people (see
# ``evenhand.models``).

BATCH = 1000
"""Texts per request."""


@dataclass(eq=False)
class TextEndpoint:
    """A service that is asked about texts.

    Attributes:
        connection: how to reach it.
        classes: the labels, once it named them together with its scores.
    """

    connection: ModelConnection
    classes: tuple[str, ...] | None = field(default=None)

    def __call__(self, texts: Sequence[str]) -> NDArray[np.generic]:
        """Return the labels or scores, shape (n,), or one score per label, shape (n, classes).

        Raises:
            FetchError: the endpoint does not answer.
            ModelError: what it answers is not a prediction.
        """
        predictions = self.connection.predictions([{"text": text} for text in texts])
        kinds = {type(one) if isinstance(one, dict | list) else object for one in predictions}
        if len(kinds) > 1:
            raise self._fault("the endpoint's predictions are of different kinds")
        if kinds == {dict}:
            return self._read_objects(predictions)
        if kinds == {list}:
            return self._numbers(predictions, None)
        return np.asarray(predictions)

    def _read_objects(self, predictions: list[dict[str, Any]]) -> NDArray[np.generic]:
        keys = {key for one in predictions for key in ("label", "scores") if key in one}
        if not keys or any(key not in one for one in predictions for key in keys):
            raise self._fault("the endpoint's predictions are objects, but not all with `label` or all with `scores`")
        if keys == {"label"}:
            return np.asarray([one["label"] for one in predictions])
        listed = [one["scores"] for one in predictions]
        if not all(isinstance(one, dict) for one in listed):
            return self._numbers(listed, None)
        if self.classes is None:
            self.classes = tuple(listed[0])
        scores = self._numbers(listed, self.classes)
        if "label" in keys:
            named = np.array(self.classes)[np.argmax(scores, axis=1)]
            differ = named != np.array([str(one["label"]) for one in predictions])
            if differ.any():
                label = predictions[int(np.argmax(differ))]["label"]
                raise self._fault(
                    f"the endpoint gave the label {label!r}, and another one has the highest score",
                    hint="reply with labels alone, or with scores alone",
                )
        return scores

    def _numbers(self, rows: list[Any], classes: tuple[str, ...] | None) -> Floats:
        if classes is not None:
            if any(set(row) != set(classes) for row in rows if isinstance(row, dict)):
                raise self._fault("the endpoint does not score the same labels each time")
            rows = [[row[label] for label in classes] if isinstance(row, dict) else row for row in rows]
        numeric = all(isinstance(row, list) and all(type(one) in (int, float) for one in row) for row in rows)
        if not numeric or len({len(row) for row in rows}) > 1:
            raise self._fault("the endpoint's scores are not lists of numbers, one per label")
        return np.asarray(rows, dtype=np.float64)

    def _fault(self, message: str, hint: str = EXPECTED_FORMAT) -> ModelError:
        return ModelError(message, location=self.connection.name, hint=hint)


def connect_text_model(url: str, *, timeout: float = 30.0, retries: int = 4, backoff: float = 0.5) -> TextEndpoint:
    """Return a model of texts behind an ``http://`` or ``https://`` URL.

    Args:
        url: where to ask; may hold a user and a password.
        timeout, retries, backoff: see ``Connection``.

    Raises:
        ModelError: it is not a URL.
    """
    return TextEndpoint(ModelConnection(url, redact_url(url), timeout, retries, backoff))
