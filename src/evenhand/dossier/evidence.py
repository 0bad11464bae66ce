"""Results of mitigations, searches for alternatives and refutations, as evidence of a dossier."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from evenhand.core.result import SCHEMA_VERSION, Result
from evenhand.core.result_part import ResultPart
from evenhand.errors import DataError
from evenhand.mitigation.alternatives.result import AlternativesResult
from evenhand.mitigation.refutation.result import RefutationResult
from evenhand.mitigation.result import MitigationResult

EVIDENCE: dict[str, type[Result]] = {
    "mitigation": MitigationResult,
    "alternatives": AlternativesResult,
    "refutation": RefutationResult,
}
"""Supported kinds of results."""


class ResultFile(ResultPart):
    """Result that a dossier is based on.

    Attributes:
        name: Name of the file.
        sha256: SHA-256 of the file, or of the JSON of a result in memory.
        result: Result.
    """

    name: str
    sha256: str
    result: Annotated[MitigationResult | AlternativesResult | RefutationResult, Field(discriminator="kind")]


def read_evidence(results: Sequence[Result | Path | str]) -> tuple[ResultFile, ...]:
    """Read results of mitigations, searches for alternatives and refutations.

    Args:
        results: Results, or their JSON files.

    Raises:
        DataError: A file cannot be read, or its kind or schema version is not supported.
    """
    return tuple(map(_read_result, results))


def _read_result(source: Result | Path | str) -> ResultFile:
    if isinstance(source, Result):
        text, location = source.to_json(), f"a result of {source.kind}"
    else:
        location = Path(source).name
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not a text file"
            raise DataError(f"the result cannot be read: {reason}", location=str(source)) from None
    result = _parse_result(text, location)
    sha256 = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return ResultFile.model_validate({"name": location, "sha256": sha256, "result": result})


def _parse_result(text: str, location: str) -> Result:
    """Parse the JSON of a result, after checking its kind and schema version."""
    expected = "expected a result of mitigate, alternatives or refute"
    try:
        plain = json.loads(text)
    except ValueError:
        raise DataError(f"{expected}, got a file that is not JSON", location=location) from None
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if not isinstance(kind, str) or kind not in EVIDENCE:
        received = f"JSON of kind {kind!r}" if isinstance(kind, str) else "other JSON"
        raise DataError(f"{expected}, got {received}", location=location, hint="pass the JSON of one of these commands")
    version = plain.get("schema_version")
    if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
        raise DataError(
            f"expected a result of schema_version {SCHEMA_VERSION}, got {version!r}",
            location=location,
            hint="compute the result with this version of evenhand, or read it with the version that wrote it",
        )
    try:
        return EVIDENCE[kind].from_json(text)
    except DataError as error:
        raise DataError(error.message, location=location, hint=error.hint) from None
