"""The model as a search asks it: whole batches, every profile under every assignment, within a budget, never twice."""

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
    Gradients,
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

ROWS = 65_536
"""Individuals per call to a model."""

IN_CACHE = 4096
"""Individuals at a time in an additive network: its units then stay in a processor's cache, four times as fast."""

MEMORY_LIMIT = 64_000_000
"""Scores that the cache holds at most (half a gigabyte); what comes later is asked again if needed."""


class BudgetExhausted(Exception):  # noqa: N818 - the regular end of a search, not an error
    """The budget or the time is used up. What was answered before is in the findings."""


@dataclass(frozen=True)
class ModelAnswers:
    """What the model said about profiles.

    Attributes:
        scores: shape (n, A, classes); one-hot where the model gives labels only.
        labels: shape (n, A), positions in the model's classes.
        flips: shape (n,), whether two assignments get different labels.
    """

    scores: Floats
    labels: Integers
    flips: Booleans


class Oracle:
    """Asks a model on behalf of a search method. Whatever it answers about whole profiles goes into the findings.

    Attributes:
        space: what the profiles are.
        findings: where discriminating profiles are collected.
        ledger: counts the individuals (rows) that the model is asked about, and keeps to the budget. A profile costs
            A, one for each assignment, a gradient costs one, and what was asked before costs nothing.
        budget: individuals that a method shall ask about; None: as many as it plans, if the ledger allows.
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
        """Prepare to ask.

        Args:
            ledger: by default the model's own, else a new one without a budget.
            budget: see ``Oracle``.
            limit: when to stop.
            progress: called with the rows asked about so far, after every call to the model.
        """
        self.scorer = scorer
        self.space = space
        self.findings = findings
        self.ledger = ledger or find_ledger(scorer) or QuestionLedger()
        self.budget = budget
        self._counts_itself = find_ledger(scorer) is not None
        # An endpoint takes few individuals per request: time and answers are looked after between requests.
        self._rows = min(ROWS, int(getattr(scorer, "batch", ROWS)))
        self._limit = limit
        self._progress = progress
        self._inside = ProfileNetwork(scorer, space) if isinstance(scorer, AdditiveNetwork) else None
        if self._inside is not None:
            self._rows = IN_CACHE
        self._gradients: Gradients | None = None
        self._slots: dict[int, int] = {}
        classes, assignments = len(scorer.classes), len(space.assignments)
        self._scores = np.empty((1024, assignments, classes))
        self._labels = np.empty((1024, assignments), dtype=np.int64)
        self._most = max(1024, MEMORY_LIMIT // (classes * assignments))

    @property
    def queries(self) -> int:
        """Individuals that the model was asked about."""
        return self.ledger.sent

    @property
    def queries_left(self) -> float:
        """How many more individuals the model may be asked about; infinite without a budget."""
        return max(0.0, self.ledger.left)  # what others asked may have used more than all of it

    @property
    def affordable_profiles(self) -> float:
        """How many new profiles the rest of the budget pays for; infinite without a budget."""
        return float(np.floor(self.queries_left / len(self.space.assignments)))

    @property
    def fractions(self) -> Booleans:
        """Of which unprotected attributes the model can be asked about values between whole ones, shape (U,)."""
        real = np.array([attribute.kind == "real" for attribute in self.space.attributes])
        return real if self._inside is None else real | self._inside.lines

    def ask(self, unprotected: Floats) -> ModelAnswers:
        """Return what the model says about profiles (n, U) under every assignment.

        Raises:
            BudgetExhausted: the budget or the time does not suffice for all of them. What it does suffice for was
                asked, in order, and is in the findings.
        """
        self._stop_if_late()
        slots, known = self._slots, len(self._slots)
        keys = self.space.keys(unprotected).tolist()
        if known + len(keys) > self._most:
            return self._record_answers(unprotected, *self._charge_and_query(unprotected))
        at = np.array([slots.setdefault(key, len(slots)) for key in keys], dtype=np.int64)
        new = len(slots) - known
        if new:
            where = np.empty(new, dtype=np.int64)
            fresh = np.flatnonzero(at >= known)[::-1]
            where[at[fresh] - known] = fresh  # the first of each, since later writes win
            try:
                scores, labels = self._charge_and_query(unprotected[where])
            except BaseException:
                for key in [keys[i] for i in where.tolist()]:
                    del slots[key]  # not answered after all
                raise
            self._keep(known, scores, labels)
        return self._record_answers(unprotected, self._scores[at], self._labels[at])

    def compare(self, unprotected: Floats, which: Integers) -> ModelAnswers:
        """Return what the model says about profiles (n, U), each under some assignments only (n, k). Costs n k.

        Those that these decide differently are findings; the others are asked about at the end, if the budget allows.

        Raises:
            BudgetExhausted: as ``ask``.
        """
        self._stop_if_late()
        n, k = which.shape
        paid = int(min(n, self.queries_left / k))
        scores = np.empty((paid, k, len(self.scorer.classes)))
        labels = np.empty((paid, k), dtype=np.int64)
        each = max(1, self._rows // k)
        for i in range(0, paid, each):
            part = slice(i, min(i + each, paid))
            try:
                scores[part], labels[part] = self._query_at(unprotected[part], which[part])
            except BudgetError:  # further tries after a failure cost more than was foreseen
                raise BudgetExhausted from None
            self._add_partial(unprotected[part], which[part], scores[part], labels[part])
            self._show_progress()
        if paid < n:
            raise BudgetExhausted
        return ModelAnswers(scores, labels, find_flips(labels))

    def _add_partial(self, unprotected: Floats, which: Integers, scores: Floats, labels: Integers) -> None:
        """Take in profiles that these assignments decide differently; what was not asked is missing."""
        flips = find_flips(labels)
        n = int(flips.sum())
        every = np.full((n, self._scores.shape[1]), NOT_QUERIED)
        np.put_along_axis(every, which[flips], labels[flips], axis=1)
        some = np.full((n, *self._scores.shape[1:]), np.nan)
        np.put_along_axis(some, which[flips][:, :, None], scores[flips], axis=1)
        self.findings.add(unprotected[flips], every, some)

    def scores_at(self, unprotected: Floats, which: Integers) -> Floats:
        """Return scores of profiles (n, U), each under one assignment (n,), for slopes: shape (n, classes). Costs n.

        The entries may lie between the values of those attributes that ``fractions`` marks.

        Raises:
            BudgetExhausted: the budget or the time does not suffice.
        """
        self._stop_if_late()
        self._require(len(unprotected))
        found = [np.empty((0, len(self.scorer.classes)))]
        for i in range(0, len(unprotected), self._rows):
            part, under = unprotected[i : i + self._rows], which[i : i + self._rows]
            if not self._counts_itself:
                self.ledger.charge(len(part))
            if self._inside is not None:
                found.append(class_probabilities(self._inside.logits_at(part, under)))
            else:
                found.append(np.asarray(self.scorer.scores(self.space.rows_as(part, under))))
        self._show_progress()
        return np.concatenate(found)

    def gradient(self, unprotected: Floats, which: Integers, *, loss: bool = False) -> Floats:
        """How the predicted label's probability changes along every unprotected attribute, shape (n, U). Costs n.

        Args:
            unprotected: profiles, shape (n, U).
            which: the assignment of each, shape (n,).
            loss: give the slope of its cross-entropy instead.

        Raises:
            OptionError: the model has no gradients.
            BudgetExhausted: the budget or the time does not suffice.
        """
        if self._gradients is None:
            model = self.scorer.model if isinstance(self.scorer, CachedScorer) else self.scorer
            self._gradients = find_gradients(model, self.space, self._inside)
        self._stop_if_late()
        self._require(len(unprotected))
        self.ledger.charge(len(unprotected))
        self._show_progress()
        return self._gradients.gradient(unprotected, which, loss=loss)

    def _record_answers(self, unprotected: Floats, scores: Floats, labels: Integers) -> ModelAnswers:
        return ModelAnswers(scores, labels, self.findings.add(unprotected, labels, scores))

    def _charge_and_query(self, unprotected: Floats) -> tuple[Floats, Integers]:
        n = len(unprotected)
        paid = int(min(n, self.affordable_profiles))
        scores = np.empty((paid, *self._scores.shape[1:]))
        labels = np.empty((paid, self._labels.shape[1]), dtype=np.int64)
        each = max(1, self._rows // labels.shape[1])
        for i in range(0, paid, each):
            part = unprotected[i : min(i + each, paid)]
            try:
                scores[i : i + each], labels[i : i + each] = self._query_all(part)
            except BudgetError:  # further tries after a failure cost more than was foreseen
                self.findings.add(unprotected[:i], labels[:i], scores[:i])
                raise BudgetExhausted from None
            self._show_progress()
            if paid > each and i + each < paid and self._limit.passed():
                self.findings.add(unprotected[: i + each], labels[: i + each], scores[: i + each])
                raise BudgetExhausted
        if paid < n:
            self.findings.add(unprotected[:paid], labels, scores)
            raise BudgetExhausted
        return scores, labels

    def _query_all(self, unprotected: Floats) -> tuple[Floats, Integers]:
        shape = (len(unprotected), len(self.space.assignments))
        if self._inside is not None:
            self.ledger.charge(shape[0] * shape[1])
            logits = self._inside.logits(unprotected)
            return class_probabilities(logits), labels_from_logits(logits)
        reply = ask_model(self.scorer, self.space.rows(unprotected), self.ledger)
        return reply.scores.reshape(*shape, -1), reply.labels.reshape(shape)

    def _query_at(self, unprotected: Floats, which: Integers) -> tuple[Floats, Integers]:
        if self.space.varies:
            which = np.take_along_axis(self.space.substitutes(unprotected), which, axis=1)
        repeated = np.repeat(unprotected, which.shape[1], axis=0)
        if self._inside is not None:
            self.ledger.charge(which.size)
            logits = self._inside.logits_at(repeated, which.ravel())
            reply = Reply(class_probabilities(logits), labels_from_logits(logits), False)
        else:
            reply = ask_model(self.scorer, self.space.rows_as(repeated, which.ravel()), self.ledger)
        return reply.scores.reshape(*which.shape, -1), reply.labels.reshape(which.shape)

    def _keep(self, start: int, scores: Floats, labels: Integers) -> None:
        needed = start + len(scores)
        if needed > len(self._scores):
            size = max(needed, 2 * len(self._scores))
            grown, grown_labels = np.empty((size, *scores.shape[1:])), np.empty((size, labels.shape[1]), dtype=np.int64)
            grown[:start], grown_labels[:start] = self._scores[:start], self._labels[:start]
            self._scores, self._labels = grown, grown_labels
        self._scores[start:needed], self._labels[start:needed] = scores, labels

    def _require(self, rows: int) -> None:
        if rows > self.queries_left:
            raise BudgetExhausted

    def _show_progress(self) -> None:
        if self._progress is not None:
            self._progress(self.queries)

    def _stop_if_late(self) -> None:
        if self._limit.passed():
            raise BudgetExhausted


# A model whose answers are kept in a file, so that an interrupted search goes on without asking twice.

CACHE_FORMAT = "evenhand answers 1"

BATCH = 8192
"""Answers that are written at a time, where the model does not say how many it gives per request."""


class CachedScorer(WrappedScorer):
    """A scorer that asks the one behind it only about individuals that are not in the file yet.

    The file is text, one JSON object per line, only ever added to: first what it is about, then one line per batch of
    answers, each flushed before it is used. A line cut short by a kill is dropped when the file is opened again.

    Attributes:
        model: the scorer behind it.
        remembered: how many questions were answered from what an earlier search left in the file.
    """

    def __init__(self, scorer: Scorer, path: Path, ledger: QuestionLedger | None = None) -> None:
        """Open a file of answers, or begin one; only what is not in it is charged to a ledger.

        Raises:
            DataError: the file is about another model or schema, is no such file, or cannot be written.
        """
        self.model = scorer
        self._ledger = find_ledger(scorer) or ledger or QuestionLedger()
        self.batch: int = getattr(scorer, "batch", BATCH)
        self.remembered = 0
        self._known: dict[bytes, Floats] = {}
        self._session: set[bytes] = set()
        self._path = path
        try:
            self._file = self._open(path)
        except OSError as error:
            raise DataError(f"the file of answers cannot be used: {error}", location="`resume=`") from None

    @property
    def ledger(self) -> QuestionLedger:
        """Count the people that the model is asked about, without those whose answers are in the file."""
        return self._ledger

    def scores(self, individuals: Floats) -> Floats:
        """Return the scores (n, classes), of the file or of the model."""
        return self._answers(individuals)[:, 1:]

    def predict(self, individuals: Floats) -> Integers:
        """Return the labels (n,), of the file or of the model."""
        return self._answers(individuals)[:, 0].astype(np.int64)

    def reply(self, individuals: Floats) -> Reply:
        """Return scores and labels, of the file or of the model."""
        answers = self._answers(individuals)
        return Reply(answers[:, 1:], answers[:, 0].astype(np.int64), self.label_only)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _answers(self, individuals: Floats) -> Floats:
        keys = [row.tobytes() for row in np.ascontiguousarray(individuals, dtype=np.float64)]
        self.remembered += sum(key in self._known and key not in self._session for key in keys)

        def ask(rows: Floats) -> Floats:
            reply = ask_model(self.model, rows, self._ledger)
            self._write(rows, reply.columns)
            return reply.columns

        found = ask_once(individuals, self._known, ask, batch=self.batch, width=1 + len(self.classes))
        self._session.update(keys)
        return found

    def _describe_scorer(self) -> dict[str, str]:
        described = json.dumps([self.schema.model_dump(mode="json"), list(self.classes)], sort_keys=True)
        return {"file": CACHE_FORMAT, "model": self.name, "schema": hashlib.sha256(described.encode()).hexdigest()}

    def _write(self, asked: Floats, answers: Floats) -> None:
        line = {"asked": _encode_array(asked), "answers": _encode_array(answers), "n": len(asked)}
        try:
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise DataError(f"the file of answers cannot be written: {error}", location="`resume=`") from None

    def _open(self, path: Path) -> IO[bytes]:
        about = json.dumps(self._describe_scorer()).encode() + b"\n"
        if not path.exists() or path.stat().st_size == 0:
            file = path.open("ab")
            file.write(about)
            file.flush()
            return file
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        self._check(lines[0] if lines else content, about)
        for number, line in enumerate(lines[1:], start=2):
            self._read(line, number)
        reopened: IO[bytes] = path.open("r+b")
        reopened.truncate(len(whole))
        reopened.seek(len(whole))
        return reopened

    def _check(self, first: bytes, about: bytes) -> None:
        try:
            given = json.loads(first)
        except ValueError:
            given = None
        if not isinstance(given, dict) or given.get("file") != CACHE_FORMAT:
            raise DataError("this is not a file of answers", location=str(self._path), hint="give a new file name")
        if given != json.loads(about):
            raise DataError(
                f"these answers are of {given.get('model')!r}, perhaps with another schema; the search is about "
                f"{self.name!r}",
                location=str(self._path),
                hint="give the model and schema that it was begun with, or a new file name",
            )

    def _read(self, line: bytes, number: int) -> None:
        try:
            given = json.loads(line)
            asked = _decode_array(given["asked"], given["n"], len(self.schema.attributes))
            answers = _decode_array(given["answers"], given["n"], 1 + len(self.classes))
        except (ValueError, KeyError, TypeError):
            raise DataError(f"line {number} is damaged", location=str(self._path), hint="remove the line") from None
        self._known.update(zip((row.tobytes() for row in asked), answers, strict=True))


def _encode_array(array: Floats) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()


def _decode_array(text: str, rows: int, columns: int) -> Floats:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8").astype(np.float64).reshape(rows, columns)
