"""Queries of a search: in batches, each profile once under every assignment, within a budget."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import BudgetError, DataError
from evenhand.individual.flips import find_flips
from evenhand.individual.search.findings import NOT_QUERIED, FindingCollector
from evenhand.individual.search.gradients import (
    ProfileNetwork,
    class_probabilities,
    find_gradients,
    labels_from_logits,
)
from evenhand.individual.search.space import ProfileSpace
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.ledger import QuestionLedger, ask_model, find_ledger
from evenhand.models.replies import Reply
from evenhand.models.scorer import Scorer, WrappedScorer, ask_once

MAX_ROWS = 65_536
"""Maximum number of individuals per call to a model."""

NETWORK_ROWS = 4096
"""Individuals per call to an additive network. Its units then stay in the processor's cache, which is four times as
fast."""

MAX_CACHED_SCORES = 64_000_000
"""Maximum number of scores in the cache (half a gigabyte). Later profiles are queried again if needed."""


class BudgetExhausted(Exception):  # noqa: N818 - the regular end of a search, not an error
    """Raised when the budget or the time limit is reached. Earlier answers are in the findings."""


@dataclass(frozen=True)
class ModelAnswers:
    """Answers about profiles.

    Attributes:
        scores: Scores, shape (n, A, classes). One-hot if the model returns labels only.
        labels: Labels as positions in the model's classes, shape (n, A).
        flips: Whether two assignments get different labels, shape (n,).
    """

    scores: Floats
    labels: Integers
    flips: Booleans


class Oracle:
    """Queries a model for a search method, and adds all answers about whole profiles to the findings.

    Attributes:
        scorer: The model.
        space: Space of the profiles.
        findings: Collector of the profiles whose label changes.
        ledger: Counts the individuals (rows) in queries, within the budget. A profile costs A, one per assignment; a
            gradient costs one; cached answers are free.
        budget: Number of individuals that a method may query. None leaves the number to its plan and the ledger.
    """

    def __init__(
        self,
        scorer: Scorer,
        space: ProfileSpace,
        findings: FindingCollector,
        *,
        ledger: QuestionLedger | None = None,
        budget: int | None = None,
        limit: TimeLimit = NEVER,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Prepare the queries.

        Args:
            scorer: The model.
            space: Space of the profiles.
            findings: Collector of the profiles whose label changes.
            ledger: Ledger. Default: that of the model, or a new one without a budget.
            budget: See ``Oracle``.
            limit: Time limit.
            progress: Called with the number of queried rows after every call to the model.
        """
        self.scorer = scorer
        self.space = space
        self.findings = findings
        self.ledger = ledger or find_ledger(scorer) or QuestionLedger()
        self.budget = budget
        self._counts_itself = find_ledger(scorer) is not None
        self._limit = limit
        self._progress = progress
        self._network = ProfileNetwork(scorer, space) if isinstance(scorer, AdditiveNetwork) else None
        # An endpoint accepts few individuals per request: limits are checked between requests.
        rows = min(MAX_ROWS, int(getattr(scorer, "batch", MAX_ROWS)))
        self._rows = rows if self._network is None else NETWORK_ROWS
        self._gradients = self._network
        self._slots: dict[int, int] = {}
        classes, assignments = len(scorer.classes), len(space.assignments)
        self._scores = np.empty((1024, assignments, classes))
        self._labels = np.empty((1024, assignments), dtype=np.int64)
        self._max_slots = max(1024, MAX_CACHED_SCORES // (classes * assignments))

    @property
    def queries(self) -> int:
        """Number of individuals in all queries."""
        return self.ledger.sent

    @property
    def queries_left(self) -> float:
        """Remaining number of individuals. Infinite without a budget."""
        return max(0.0, self.ledger.left)  # other analyses may have exceeded it

    @property
    def affordable_profiles(self) -> float:
        """Number of new profiles that the remaining budget covers. Infinite without a budget."""
        return float(np.floor(self.queries_left / len(self.space.assignments)))

    @property
    def fractions(self) -> Booleans:
        """Unprotected attributes that may have values between whole numbers in queries, shape (U,)."""
        real = np.array([attribute.kind == "real" for attribute in self.space.attributes])
        return real if self._network is None else real | self._network.lines

    def ask(self, unprotected: Floats) -> ModelAnswers:
        """Query profiles (n, U) under every assignment.

        Raises:
            BudgetExhausted: The budget or the time is not sufficient for all of them. The first profiles, as many as
                the budget covers, are still queried and added to the findings.
        """
        self._check_time()
        slots, start = self._slots, len(self._slots)
        keys = self.space.keys(unprotected).tolist()
        if start + len(keys) > self._max_slots:
            return self._record_answers(unprotected, *self._charge_and_query(unprotected))
        at = np.array([slots.setdefault(key, len(slots)) for key in keys], dtype=np.int64)
        new = len(slots) - start
        if new:
            new_rows = np.empty(new, dtype=np.int64)
            fresh = np.flatnonzero(at >= start)[::-1]
            new_rows[at[fresh] - start] = fresh  # the first occurrence, since later writes win
            try:
                scores, labels = self._charge_and_query(unprotected[new_rows])
            except BaseException:
                for key in [keys[i] for i in new_rows.tolist()]:
                    del slots[key]  # it was not answered
                raise
            self._store(start, scores, labels)
        return self._record_answers(unprotected, self._scores[at], self._labels[at])

    def compare(self, unprotected: Floats, which: Integers) -> ModelAnswers:
        """Query profiles (n, U), each under some assignments only (n, k). Costs n k.

        Profiles whose labels differ between these are findings. Their other assignments are queried at the end, within
        the budget.

        Raises:
            BudgetExhausted: As for ``ask``.
        """
        self._check_time()
        n, k = which.shape
        paid = int(min(n, self.queries_left / k))
        scores = np.empty((paid, k, len(self.scorer.classes)))
        labels = np.empty((paid, k), dtype=np.int64)
        step = max(1, self._rows // k)
        for i in range(0, paid, step):
            part = slice(i, min(i + step, paid))
            try:
                scores[part], labels[part] = self._query_at(unprotected[part], which[part])
            except BudgetError:  # retries after a failure cost more than expected
                raise BudgetExhausted from None
            self._add_partial(unprotected[part], which[part], scores[part], labels[part])
            self._report_progress()
        if paid < n:
            raise BudgetExhausted
        return ModelAnswers(scores, labels, find_flips(labels))

    def _add_partial(self, unprotected: Floats, which: Integers, scores: Floats, labels: Integers) -> None:
        """Add profiles whose labels differ between these assignments. Other assignments are marked as missing."""
        flips = find_flips(labels)
        n = int(flips.sum())
        all_labels = np.full((n, self._scores.shape[1]), NOT_QUERIED)
        np.put_along_axis(all_labels, which[flips], labels[flips], axis=1)
        all_scores = np.full((n, *self._scores.shape[1:]), np.nan)
        np.put_along_axis(all_scores, which[flips][:, :, None], scores[flips], axis=1)
        self.findings.add(unprotected[flips], all_labels, all_scores)

    def scores_at(self, unprotected: Floats, which: Integers) -> Floats:
        """Query the scores of profiles (n, U), each under one assignment (n,), for slopes: shape (n, classes). Costs n.

        Entries of attributes in ``fractions`` need not be whole numbers.

        Raises:
            BudgetExhausted: The budget or the time is not sufficient.
        """
        self._check_time()
        self._require(len(unprotected))
        parts = [np.empty((0, len(self.scorer.classes)))]
        for i in range(0, len(unprotected), self._rows):
            rows, assignments = unprotected[i : i + self._rows], which[i : i + self._rows]
            if not self._counts_itself:
                self.ledger.charge(len(rows))
            if self._network is not None:
                parts.append(class_probabilities(self._network.logits_at(rows, assignments)))
            else:
                parts.append(np.asarray(self.scorer.scores(self.space.rows_as(rows, assignments))))
        self._report_progress()
        return np.concatenate(parts)

    def gradient(self, unprotected: Floats, which: Integers, *, loss: bool = False) -> Floats:
        """Compute the gradient of the predicted label's probability in the unprotected attributes, shape (n, U).

        Costs n.

        Args:
            unprotected: Profiles, shape (n, U).
            which: Assignment of each, shape (n,).
            loss: Whether to compute the gradient of its cross-entropy instead.

        Raises:
            OptionError: The model has no gradients.
            BudgetExhausted: The budget or the time is not sufficient.
        """
        if self._gradients is None:
            model = self.scorer.model if isinstance(self.scorer, CachedScorer) else self.scorer
            self._gradients = find_gradients(model, self.space)
        self._check_time()
        self._require(len(unprotected))
        self.ledger.charge(len(unprotected))
        self._report_progress()
        return self._gradients.gradient(unprotected, which, loss=loss)

    def _record_answers(self, unprotected: Floats, scores: Floats, labels: Integers) -> ModelAnswers:
        return ModelAnswers(scores, labels, self.findings.add(unprotected, labels, scores))

    def _charge_and_query(self, unprotected: Floats) -> tuple[Floats, Integers]:
        n = len(unprotected)
        paid = int(min(n, self.affordable_profiles))
        scores = np.empty((paid, *self._scores.shape[1:]))
        labels = np.empty((paid, self._labels.shape[1]), dtype=np.int64)
        step = max(1, self._rows // labels.shape[1])
        answered = 0
        while answered < paid:
            part = slice(answered, min(answered + step, paid))
            try:
                scores[part], labels[part] = self._query_all(unprotected[part])
            except BudgetError:  # retries after a failure cost more than expected
                break
            self._report_progress()
            answered = part.stop
            if answered < paid and self._limit.passed():
                break
        if answered < n:
            self.findings.add(unprotected[:answered], labels[:answered], scores[:answered])
            raise BudgetExhausted
        return scores, labels

    def _query_all(self, unprotected: Floats) -> tuple[Floats, Integers]:
        shape = (len(unprotected), len(self.space.assignments))
        if self._network is not None:
            self.ledger.charge(shape[0] * shape[1])
            logits = self._network.logits(unprotected)
            return class_probabilities(logits), labels_from_logits(logits)
        reply = ask_model(self.scorer, self.space.rows(unprotected), self.ledger)
        return reply.scores.reshape(*shape, -1), reply.labels.reshape(shape)

    def _query_at(self, unprotected: Floats, which: Integers) -> tuple[Floats, Integers]:
        if self.space.varies:
            which = np.take_along_axis(self.space.substitutes(unprotected), which, axis=1)
        repeated = np.repeat(unprotected, which.shape[1], axis=0)
        if self._network is not None:
            self.ledger.charge(which.size)
            logits = self._network.logits_at(repeated, which.ravel())
            reply = Reply(class_probabilities(logits), labels_from_logits(logits), False)
        else:
            reply = ask_model(self.scorer, self.space.rows_as(repeated, which.ravel()), self.ledger)
        return reply.scores.reshape(*which.shape, -1), reply.labels.reshape(which.shape)

    def _store(self, start: int, scores: Floats, labels: Integers) -> None:
        end = start + len(scores)
        if end > len(self._scores):
            size = max(end, 2 * len(self._scores))
            grown, grown_labels = np.empty((size, *scores.shape[1:])), np.empty((size, labels.shape[1]), dtype=np.int64)
            grown[:start], grown_labels[:start] = self._scores[:start], self._labels[:start]
            self._scores, self._labels = grown, grown_labels
        self._scores[start:end], self._labels[start:end] = scores, labels

    def _require(self, rows: int) -> None:
        if rows > self.queries_left:
            raise BudgetExhausted

    def _report_progress(self) -> None:
        if self._progress is not None:
            self._progress(self.queries)

    def _check_time(self) -> None:
        if self._limit.passed():
            raise BudgetExhausted


# Answers stored in a file, so that an interrupted search continues without repeating queries.

CACHE_FORMAT = "evenhand answers 1"

DEFAULT_BATCH = 8192
"""Answers written at a time if the model has no batch size."""


class CachedScorer(WrappedScorer):
    """Scorer that queries its model only about individuals that are not in a file of answers.

    The file is text with one JSON object per line. The first line describes the model; each further line is a batch of
    answers, flushed before it is used. An incomplete last line is dropped when the file is opened again.

    Attributes:
        model: The model.
        remembered: Number of answers read from the file of an earlier search.
    """

    def __init__(self, scorer: Scorer, path: Path, ledger: QuestionLedger | None = None) -> None:
        """Open or create a file of answers. Only new queries are charged to a ledger.

        Raises:
            DataError: The file is about another model or schema, is not a file of answers, or cannot be written.
        """
        self.model = scorer
        self._ledger = find_ledger(scorer) or ledger or QuestionLedger()
        self.batch: int = getattr(scorer, "batch", DEFAULT_BATCH)
        self.remembered = 0
        self._answers: dict[bytes, Floats] = {}
        self._session: set[bytes] = set()
        self._path = path
        try:
            self._file = self._open(path)
        except OSError as error:
            raise DataError(f"the answer file cannot be used: {error}", location="`resume=`") from None

    @property
    def ledger(self) -> QuestionLedger:
        """Ledger of the queries to the model, without answers from the file."""
        return self._ledger

    def scores(self, individuals: Floats) -> Floats:
        """Return the scores (n, classes)."""
        return self._find_answers(individuals)[:, 1:]

    def predict(self, individuals: Floats) -> Integers:
        """Return the labels (n,)."""
        return self._find_answers(individuals)[:, 0].astype(np.int64)

    def reply(self, individuals: Floats) -> Reply:
        """Return scores and labels."""
        answers = self._find_answers(individuals)
        return Reply(answers[:, 1:], answers[:, 0].astype(np.int64), self.label_only)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _find_answers(self, individuals: Floats) -> Floats:
        keys = [row.tobytes() for row in np.ascontiguousarray(individuals, dtype=np.float64)]
        self.remembered += sum(key in self._answers and key not in self._session for key in keys)

        def ask(rows: Floats) -> Floats:
            reply = ask_model(self.model, rows, self._ledger)
            self._write(rows, reply.columns)
            return reply.columns

        answers = ask_once(individuals, self._answers, ask, batch=self.batch, width=1 + len(self.classes))
        self._session.update(keys)
        return answers

    def _describe_scorer(self) -> dict[str, str]:
        description = json.dumps([self.schema.model_dump(mode="json"), list(self.classes)], sort_keys=True)
        return {"file": CACHE_FORMAT, "model": self.name, "schema": hashlib.sha256(description.encode()).hexdigest()}

    def _write(self, individuals: Floats, answers: Floats) -> None:
        line = {"asked": _encode_array(individuals), "answers": _encode_array(answers), "n": len(individuals)}
        try:
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise DataError(f"the file of answers cannot be written: {error}", location="`resume=`") from None

    def _open(self, path: Path) -> IO[bytes]:
        header = json.dumps(self._describe_scorer()).encode() + b"\n"
        if not path.exists() or path.stat().st_size == 0:
            file = path.open("ab")
            file.write(header)
            file.flush()
            return file
        content = path.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        lines = complete.splitlines()
        self._check_header(lines[0] if lines else content, header)
        for number, line in enumerate(lines[1:], start=2):
            self._read(line, number)
        reopened: IO[bytes] = path.open("r+b")
        reopened.truncate(len(complete))
        reopened.seek(len(complete))
        return reopened

    def _check_header(self, line: bytes, expected: bytes) -> None:
        try:
            header = json.loads(line)
        except ValueError:
            header = None
        if not isinstance(header, dict) or header.get("file") != CACHE_FORMAT:
            raise DataError("this is not a file of answers", location=str(self._path), hint="give a new file name")
        if header != json.loads(expected):
            raise DataError(
                f"these answers are of {header.get('model')!r}, perhaps with another schema; the search is about "
                f"{self.name!r}",
                location=str(self._path),
                hint="give the model and schema of the earlier search, or a new file name",
            )

    def _read(self, line: bytes, number: int) -> None:
        try:
            batch = json.loads(line)
            individuals = _decode_array(batch["asked"], batch["n"], len(self.schema.attributes))
            answers = _decode_array(batch["answers"], batch["n"], 1 + len(self.classes))
        except (ValueError, KeyError, TypeError):
            raise DataError(f"line {number} is damaged", location=str(self._path), hint="remove the line") from None
        self._answers.update(zip((row.tobytes() for row in individuals), answers, strict=True))


def _encode_array(array: Floats) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()


def _decode_array(text: str, rows: int, columns: int) -> Floats:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8").astype(np.float64).reshape(rows, columns)
