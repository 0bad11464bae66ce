"""Text models: functions from a list of texts to labels or scores.

A model behind an HTTP endpoint receives ``{"instances": [{"text": "I have two children."}, ...]}``, at most 1,000 texts
per request, and replies in the format of ``http_endpoint``. Labels are those in its replies or the positions of its
scores.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.http import redact_url
from evenhand.core.text import summarize_error
from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Integers
from evenhand.errors import BudgetError, DataError, EvenhandError, LimitError, ModelError
from evenhand.models.blackbox.estimator import is_repeatable, nested_parts
from evenhand.models.blackbox.http_endpoint import ModelConnection
from evenhand.models.blackbox.hugging_face import is_text_classifier, read_text_classifier
from evenhand.models.importing import import_object
from evenhand.models.load import OBJECT_LOADERS, OBJECT_NAME, import_language_models, is_url, load_stored_object
from evenhand.models.noise import CHECKED, NoiseCheck, growing_batches
from evenhand.models.outputs import OutputKind, read_outputs
from evenhand.models.replies import QuestionLedger, Reply, label_reply, read_answers, to_array
from evenhand.models.scorer import split_batches
from evenhand.stats.repetition import Repetition, confirm_repeats

TextFlip: TypeAlias = tuple[tuple[str, str], tuple[str, str]]
"""Two texts with their labels."""

CHECK_SHARE = 0.1
"""Fraction of the time limit for repeating queries in more than one batch."""

TEXT_BATCH, ENDPOINT_BATCH = 4096, 1000
"""Texts per call to a model, and per request to an endpoint."""

REPLY_HINT = "let the model return labels, or probabilities of the favourable label"


@dataclass(frozen=True, eq=False)
class TextModel:
    """Model that is called with a list of texts.

    Attributes:
        ask: Function of a list of texts that returns an array: labels, scores from 0 to 1, or one score per label.
        classes: Labels, if the model names them.
        name: Name of the model in messages.
        batch: Texts per call.
        ledger: Ledger of the texts sent to an endpoint. None for a model in this process.
        can_vary: Whether the answers may differ between calls.
    """

    ask: Any
    classes: tuple[Any, ...] | None
    name: str
    batch: int = TEXT_BATCH
    ledger: QuestionLedger | None = None
    can_vary: bool = True

    def replies(self, texts: Sequence[str]) -> NDArray[np.generic]:
        """Query the model for each text, shape (n,) or (n, classes).

        Raises:
            ModelError: The model fails or does not return one reply per text.
        """
        return np.concatenate([self._batch(list(batch)) for batch in split_batches(texts, self.batch)])

    def _batch(self, texts: list[str]) -> NDArray[np.generic]:
        try:
            reply = self.ask(texts)
        except EvenhandError:
            raise
        except Exception as error:
            raise ModelError(
                f"the model fails for a list of {len(texts):,} texts: {summarize_error(error)}",
                location=self.name,
                hint="a text model must accept a list of texts and return one label or score for each",
            ) from error
        array = to_array(reply)
        if array.ndim not in (1, 2) or len(array) != len(texts):
            raise ModelError(
                f"the model returned shape {array.shape} for {len(texts):,} texts",
                location=self.name,
                hint="return one label or score per text, or one score per label",
            )
        return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def load_text_model(source: Any, *, trust: bool = False) -> TextModel:
    """Load a text model: an object, a scikit-learn file, a folder, a URL, or ``module:function``.

    Args:
        source: An estimator or pipeline with ``predict_proba`` or ``predict``, any function of a list of texts, or the
            folder of a text classifier that transformers saved (``config.json``, safetensors, tokenizer), or the
            ``.yaml`` file of a language model.
        trust: Whether to load files that can run code.

    Raises:
        ModelError: The model does not exist or does not accept texts.
        TrustError: Loading it could run code, and it is not trusted.
    """
    if isinstance(source, TextModel):
        return source
    name = str(source) if isinstance(source, str | Path) else getattr(source, "__name__", type(source).__name__)
    if isinstance(source, str) and is_url(source):
        connection = ModelConnection(source, redact_url(source))
        return TextModel(connection.text_replies, None, connection.name, ENDPOINT_BATCH, connection.ledger)
    if isinstance(source, str) and OBJECT_NAME.fullmatch(source):
        source = import_object(source)
    elif isinstance(source, str | Path):
        path = Path(source)
        if is_text_classifier(path):
            classifier = read_text_classifier(path)
            return TextModel(classifier, classifier.classes, name, can_vary=False)
        if path.suffix.lower() in (".yaml", ".yml"):
            model: TextModel = import_language_models().open_text_file(path)
            return model
        if path.suffix.lower() not in OBJECT_LOADERS:
            raise ModelError(
                "this is not a text model",
                location=name,
                hint=f"pass a scikit-learn pipeline in a file ({', '.join(OBJECT_LOADERS)}), a folder of a "
                "Hugging Face text classifier, the .yaml of a language model, a URL or module:function",
            )
        source = load_stored_object(path, trust=trust)
    method = next((method for method in ("predict_proba", "predict") if hasattr(source, method)), None)
    if method is not None and not isinstance(source, type):
        classes = getattr(source, "classes_", None)
        labels = None if classes is None else tuple(np.asarray(classes).tolist())
        return TextModel(getattr(source, method), labels, name, can_vary=not is_repeatable(source))
    if callable(source):
        return TextModel(source, None, name)
    raise ModelError(
        f"a {type(source).__name__} is not a text model",
        location=name,
        hint="pass an estimator with predict, or a function of a list of texts",
    )


def reads_texts(model: Any) -> bool:
    """Check whether the first step of a scikit-learn model tokenises texts, so it cannot accept rows."""
    model = getattr(model, "best_estimator_", model)
    parts = nested_parts(model)
    return reads_texts(parts[0][1]) if parts else hasattr(model, "build_analyzer")


def interpret_replies(
    replies: NDArray[np.generic], model: TextModel, labels: Sequence[Any] | None, favourable: Any
) -> tuple[Reply, tuple[Any, ...], int]:
    """Interpret replies as scores and labels. Return them, the label names and the position of the favourable label.

    The names come from ``labels``, from the model, or from the replies: the distinct replies in order, or ``no`` and
    ``yes`` for scores. Default: the last label is favourable.

    Raises:
        ModelError: The replies are neither labels nor scores.
    """
    # A constant 0.0 or 1.0 is a score: as a label, it would be favourable in both cases.
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
    position = len(classes) - 1
    if favourable is not None:
        names = [str(label) for label in classes]
        if str(favourable) not in names:
            raise ModelError(
                f"the favourable label {favourable!r} is not among the labels {', '.join(names)}", location=model.name
            )
        position = names.index(str(favourable))
    if len(classes) == 1:  # a constant model
        return label_reply(np.zeros(len(replies), dtype=np.int64), 1), classes, 0
    positions, outputs = read_answers(replies, len(replies), classes, position, location=model.name)
    if outputs is None:
        assert positions is not None  # a reply has labels or scores
        return label_reply(positions, len(classes)), classes, position
    unknown = np.full(len(outputs), -1, dtype=np.int64)
    # Text models return probabilities, so a constant value is also a probability.
    stated: OutputKind | None = (
        "probability" if outputs.shape[1] == 1 and 0 < outputs.min() == outputs.max() < 1 else None
    )
    reading = read_outputs(
        outputs, unknown, classes, position, position, stated=stated, location=model.name, hint=REPLY_HINT
    )
    return reading.reply(outputs, classes, position, location=model.name), classes, position


def check_texts(texts: Iterable[str]) -> list[str]:
    """Check texts and return them as a list.

    Raises:
        DataError: The list is empty, or an item is not text.
    """
    if isinstance(texts, str):
        raise DataError("expected a list of texts, got a single text", hint="put the text into a list")
    checked = list(texts)
    if not checked:
        raise DataError("there are no texts")
    for row, text in enumerate(checked):
        if not isinstance(text, str):
            raise DataError(f"row {row + 1}: {text!r} is not text", hint="remove rows without text")
    return checked


class TextAnswers:
    """Cached answers of a text model, within a time limit and a budget.

    Args:
        model: The model.
        labels, favourable: Labels and the favourable label. None if unknown.
        limit: Time limit for queries.
        budget: Maximum number of texts. None disables the limit.

    Attributes:
        stopped: Whether a limit or an interrupt stopped all queries. interrupted: Whether an interrupt stopped them.
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
        """Number of texts queried so far."""
        return len(self) if self.model.ledger is None else self.model.ledger.sent

    @property
    def left(self) -> float:
        """Remaining number of texts in the budget."""
        return 0 if self.stopped else np.inf if self.budget is None else max(0, self.budget - self.queries)

    @contextmanager
    def within(self, share: float) -> Iterator[None]:
        """Temporarily restrict the budget and the time limit to a fraction."""
        limit, budget = self.limit, self.budget
        self.limit, self.budget = limit.share(share), None if budget is None else int(share * budget)
        try:
            yield
        finally:
            self.limit, self.budget, self.stopped = limit, budget, False

    def ask(self, texts: Iterable[str], progress: Callable[[float], None] = lambda share: None) -> None:
        """Query the model with new texts. A limit or an interrupt stops all queries."""
        new = [text for text in dict.fromkeys(texts) if text not in self._position]
        self._ask(new, new, progress)

    def ask_again(self, texts: Sequence[str]) -> Integers:
        """Query each text again and return the position of its new answer, or -1. The order is reversed, since a
        generator seeded per call would repeat its numbers by position.
        """
        keys = [(len(self._position), i) for i in range(len(texts))]
        self._ask(keys[::-1], texts[::-1], lambda share: None)
        return np.array([self._position.get(key, -1) for key in keys], dtype=np.int64)

    def check_noise(self, texts: Iterable[str], *, confidence: float = 0.95) -> NoiseCheck | None:
        """Repeat queries about some texts and count changed labels, like ``models.check_noise``.

        Args:
            texts: Texts in random order. At most ``CHECKED`` of them are used, at most a twentieth of the budget, and
                only the first batch once a tenth of the time has passed.
            confidence: Confidence level of the interval.

        Returns:
            The counts. None for a deterministic model, or if no query was repeated.
        """
        if not self.model.can_vary:
            return None
        limit = CHECKED if self.budget is None else min(CHECKED, self.budget // 40)
        pairs = [np.empty((2, 0), dtype=np.int64)]
        checked = list(dict.fromkeys(texts))[:limit]
        for batch in growing_batches(checked, self.limit.share(CHECK_SHARE), lambda: self.stopped):
            self.ask(batch)
            pairs.append(np.stack([self.positions(batch), self.ask_again(batch)]))
        both = np.concatenate(pairs, axis=1)
        before_repeat, again = both[:, (both >= 0).all(axis=0)]
        if not len(before_repeat):
            return None
        labels = self.answers()[0].labels
        return NoiseCheck.of_counts(int((labels[before_repeat] != labels[again]).sum()), len(before_repeat), confidence)

    def confirm_flips(self, flips: Sequence[TextFlip], *, confidence: float = 0.95) -> tuple[Repetition, int]:
        """Repeat the queries about both texts of each flip and test whether the labels are reproduced.

        Args:
            flips: Pairs of texts with their labels, most important first.
            confidence: 1 minus the false discovery rate.

        Returns:
            The confirmed flips and the number of queried texts.
        """
        queries, direction = 0, 1

        def repeat(which: Integers) -> Booleans:
            nonlocal queries, direction
            sides = [side for k in which.tolist() for side in flips[k]]
            # Each round reverses the order: a generator seeded per call would repeat its answers by position.
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
            self.stopped = True  # retries may exceed the expected cost
        except KeyboardInterrupt:
            self.stopped = self.interrupted = True
        self.stopped |= len(affordable) < len(new)

    def positions(self, texts: Iterable[str]) -> Integers:
        """Find the position of each text in ``answers``, or -1."""
        return np.array([self._position.get(text, -1) for text in texts], dtype=np.int64)

    def answers(self) -> tuple[Reply, tuple[Any, ...], int]:
        """Interpret all answers. Return them, the label names and the position of the favourable label.

        Raises:
            LimitError: There are no answers.
            ModelError: The answers are neither labels nor scores.
        """
        if not self._replies:
            raise LimitError(
                "the search was stopped before the first query", hint="increase the time limit or the budget"
            )
        if self._read is None or self._read[0] != len(self._replies):
            answers = interpret_replies(np.concatenate(self._replies), self.model, self.labels, self.favourable)
            self._read = len(self._replies), answers
        return self._read[1]
