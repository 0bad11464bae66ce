"""Answers stored in a file, so that an interrupted search continues without repeating queries."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import IO, Any

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import DataError
from evenhand.models.ledger import QuestionLedger, ask_model, find_ledger
from evenhand.models.replies import Reply, ReplyingScorer, reply_once
from evenhand.models.scorer import Scorer, WrappedScorer

FILE_FORMAT = "evenhand answers 2"

DEFAULT_BATCH = 8192
"""Number of answers written at a time if the model has no batch size."""


class CachedScorer(ReplyingScorer, WrappedScorer):
    """Scorer that queries its model only about individuals that are not in a file of answers.

    The file is text with one JSON object per line. The first line describes the model; each further line is a batch of
    answers, flushed before it is used. An incomplete last line is dropped when the file is opened again.

    Attributes:
        model: The model.
        remembered: Number of individuals whose answers were read from the file of an earlier search.
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
        self._path = path
        try:
            self._file = self._open()
        except OSError as error:
            raise DataError(f"the answer file cannot be used: {error}", location="`resume=`") from None
        self._unused = set(self._answers)

    @property
    def ledger(self) -> QuestionLedger:
        """Ledger of the queries to the model, without answers from the file."""
        return self._ledger

    def reply(self, individuals: Floats) -> Reply:
        """Return scores and labels."""
        used = self._unused.intersection(row.tobytes() for row in np.ascontiguousarray(individuals, dtype=np.float64))
        self._unused -= used
        self.remembered += len(used)
        return reply_once(self.model, individuals, self._answers, self._ask, batch=self.batch)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _ask(self, individuals: Floats) -> Reply:
        reply = ask_model(self.model, individuals, self._ledger)
        try:
            _append(self._file, {"asked": individuals.tolist(), "answers": reply.columns.tolist()})
        except OSError as error:
            raise DataError(f"the file of answers cannot be written: {error}", location="`resume=`") from None
        return reply

    def _open(self) -> IO[bytes]:
        content = self._path.read_bytes() if self._path.exists() else b""
        complete = content[: content.rfind(b"\n") + 1]
        lines = complete.splitlines() or [content]
        schema = json.dumps([self.schema.model_dump(mode="json"), list(self.classes)], sort_keys=True)
        header = {"file": FILE_FORMAT, "model": self.name, "schema": hashlib.sha256(schema.encode()).hexdigest()}
        if content:
            self._check_header(lines[0], header)
            for number, line in enumerate(lines[1:], start=2):
                self._read(line, number)
        file: IO[bytes] = self._path.open("ab")
        if content:
            file.truncate(len(complete))
        else:
            _append(file, header)
        return file

    def _check_header(self, line: bytes, expected: dict[str, str]) -> None:
        try:
            header = json.loads(line)
        except ValueError:
            header = None
        if not isinstance(header, dict) or header.get("file") != FILE_FORMAT:
            raise DataError("this is not a file of answers", location=str(self._path), hint="give a new file name")
        if header != expected:
            raise DataError(
                f"expected answers of {self.name!r} with the schema of this search, got answers of "
                f"{header.get('model')!r}",
                location=str(self._path),
                hint="give the model and schema of the earlier search, or a new file name",
            )

    def _read(self, line: bytes, number: int) -> None:
        try:
            batch = json.loads(line)
            individuals, answers = (np.array(batch[name], dtype=np.float64) for name in ("asked", "answers"))
            widths = individuals.shape[1], answers.shape[1]
            damaged = len(individuals) != len(answers) or widths != (len(self.schema.attributes), 1 + len(self.classes))
        except (ValueError, KeyError, TypeError, IndexError):
            damaged = True
        if damaged:
            raise DataError(f"line {number} is damaged", location=str(self._path), hint="remove the line")
        self._answers.update(zip((row.tobytes() for row in individuals), answers, strict=True))


def _append(file: IO[bytes], line: dict[str, Any]) -> None:
    file.write(json.dumps(line).encode() + b"\n")
    file.flush()
