"""A model whose answers are kept in a file, so that an interrupted search goes on without asking twice."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError
from evenhand.models import Scorer
from evenhand.schema import Schema, Value

FORMAT = "evenhand answers 1"

BATCH = 8192
"""Answers that are written at a time, where the model does not say how many it gives per request."""


class Remembered:
    """A scorer that asks the one behind it only about individuals that are not in the file yet.

    The file is text, one JSON object per line, only ever added to: first what it is about, then one line per batch of
    answers, each flushed before it is used. A line cut short by a kill is dropped when the file is opened again.

    Attributes:
        scorer: the model behind it.
        remembered: how many questions were answered from what an earlier search left in the file.
    """

    def __init__(self, scorer: Scorer, path: Path) -> None:
        """Open a file of answers, or begin one.

        Raises:
            DataError: the file is about another model or schema, is no such file, or cannot be written.
        """
        self.scorer = scorer
        self.schema: Schema = scorer.schema
        self.classes: tuple[Value, ...] = scorer.classes
        self.favourable: int = scorer.favourable
        self.label_only: bool = scorer.label_only
        self.name: str = scorer.name
        self.batch: int = getattr(scorer, "batch", BATCH)
        self.remembered = 0
        self._known: dict[bytes, NDArray[np.float64]] = {}
        self._session: set[bytes] = set()
        self._path = path
        try:
            self._file = self._open(path)
        except OSError as error:
            raise DataError(f"the file of answers cannot be used: {error}", where="--resume") from None

    def scores(self, individuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores (n, classes), of the file or of the model."""
        return self._answers(individuals)[:, 1:]

    def predict(self, individuals: NDArray[np.float64]) -> NDArray[np.int64]:
        """Labels (n,), of the file or of the model."""
        return self._answers(individuals)[:, 0].astype(np.int64)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _answers(self, individuals: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = np.ascontiguousarray(individuals, dtype=np.float64)
        keys = [row.tobytes() for row in rows]
        self.remembered += sum(key in self._known and key not in self._session for key in keys)
        new = list({key: i for i, key in enumerate(keys) if key not in self._known}.items())
        for start in range(0, len(new), self.batch):
            part = new[start : start + self.batch]
            asked = rows[[i for _, i in part]]
            answers = np.column_stack([self.scorer.predict(asked), self.scorer.scores(asked)])
            self._write(asked, answers)
            self._known.update(zip((key for key, _ in part), answers, strict=True))
        self._session.update(keys)
        if not keys:
            return np.empty((0, 1 + len(self.classes)))
        return np.stack([self._known[key] for key in keys])

    def _about(self) -> dict[str, str]:
        described = json.dumps([self.schema.model_dump(mode="json"), list(self.classes)], sort_keys=True)
        return {"file": FORMAT, "model": self.name, "schema": hashlib.sha256(described.encode()).hexdigest()}

    def _write(self, asked: NDArray[np.float64], answers: NDArray[np.float64]) -> None:
        line = {"asked": _packed(asked), "answers": _packed(answers), "n": len(asked)}
        try:
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise DataError(f"the file of answers cannot be written: {error}", where="--resume") from None

    def _open(self, path: Path) -> IO[bytes]:
        about = json.dumps(self._about()).encode() + b"\n"
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
        if not isinstance(given, dict) or given.get("file") != FORMAT:
            raise DataError("this is no file of answers", where=str(self._path), mend="give a new file name")
        if given != json.loads(about):
            raise DataError(
                f"these answers are of {given.get('model')!r}, perhaps with another schema; the search is about "
                f"{self.name!r}",
                where=str(self._path),
                mend="give the model and schema that it was begun with, or a new file name",
            )

    def _read(self, line: bytes, number: int) -> None:
        try:
            given = json.loads(line)
            asked = _unpacked(given["asked"], given["n"], len(self.schema.attributes))
            answers = _unpacked(given["answers"], given["n"], 1 + len(self.classes))
        except (ValueError, KeyError, TypeError):
            raise DataError(f"line {number} is damaged", where=str(self._path), mend="remove the line") from None
        self._known.update(zip((row.tobytes() for row in asked), answers, strict=True))


def _packed(array: NDArray[np.float64]) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f8").tobytes()).decode()


def _unpacked(text: str, rows: int, columns: int) -> NDArray[np.float64]:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8").astype(np.float64).reshape(rows, columns)
