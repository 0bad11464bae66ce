"""Results of mitigations as evidence of a dossier."""

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
from evenhand.mitigation.result import CandidateResult, MitigationResult
from evenhand.stats.quantity import quantity_value

EVIDENCE: dict[str, type[Result]] = {
    "mitigation": MitigationResult,
    "alternatives": AlternativesResult,
    "refutation": RefutationResult,
}
"""The kinds of results that are read."""


class ResultFile(ResultPart):
    """A result that a dossier rests on.

    Attributes:
        name, sha256: the file; of a result in memory the SHA-256 of its JSON.
        result: the result of a mitigation, a search for alternatives or a refutation.
    """

    name: str
    sha256: str
    result: Annotated[MitigationResult | AlternativesResult | RefutationResult, Field(discriminator="kind")]


def read_evidence(results: Sequence[Result | Path | str]) -> tuple[ResultFile, ...]:
    """Read results of mitigations, searches for alternatives and refutations.

    Args:
        results: JSON files, or such results themselves.

    Raises:
        DataError: a file cannot be read, is of another kind, or of a schema version that is not known here.
    """
    return tuple(_read_result(one) for one in results)


def _read_result(source: Result | Path | str) -> ResultFile:
    if isinstance(source, Result):
        text, location = source.to_json(), f"a result of {source.kind}"
    else:
        location = Path(source).name
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise DataError(f"the result cannot be read: {reason}", location=str(source)) from None
    result = _parse_result(text, location)
    sha256 = hashlib.sha256(text.encode("utf-8")).hexdigest()
    return ResultFile.model_validate({"name": location, "sha256": sha256, "result": result})


def _parse_result(text: str, location: str) -> Result:
    """Parse the result in a text; its kind and schema version are checked first."""
    expected = "expected a result of mitigate, alternatives or refute"
    try:
        plain = json.loads(text)
    except ValueError:
        raise DataError(f"{expected}, got a file that is not JSON", location=location) from None
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if not isinstance(kind, str) or kind not in EVIDENCE:
        given = f"JSON of kind {kind!r}" if isinstance(kind, str) else "other JSON"
        raise DataError(f"{expected}, got {given}", location=location, hint="give the JSON that one of these wrote")
    version = plain.get("schema_version")
    if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
        raise DataError(
            f"expected a result of schema_version {SCHEMA_VERSION}, got {version!r}",
            location=location,
            hint="make the result with this version of evenhand, or read it with the version that wrote it",
        )
    try:
        return EVIDENCE[kind].from_json(text)
    except DataError as error:
        raise DataError(error.message, location=location, hint=error.hint) from None


def find_frontier(candidates: Sequence[CandidateResult]) -> list[bool | None]:
    """Return which models no other dominates, the incumbent first, by accuracy and what was to be reduced.

    A model dominates another if it is at least as good in every number and better in one, as observed.
    """

    def costs(candidate: CandidateResult, *, after: bool) -> tuple[float | None, ...]:
        lines = [one for one in candidate.lines if one.name == "accuracy" or one.part == "asked"]
        values = [(one, quantity_value(one.after if after else one.before)) for one in lines]
        return tuple(None if value is None else value if one.better_if == "down" else -value for one, value in values)

    if not candidates:
        return [None]
    models = [costs(candidates[0], after=False), *(costs(one, after=True) for one in candidates)]
    complete = [one for one in models if one and None not in one]

    def is_dominated(one: tuple[float | None, ...]) -> bool:
        return any(
            # No None is left in ``complete``, which its type cannot say.
            other != one and len(other) == len(one) and all(a <= b for a, b in zip(other, one, strict=True))  # type: ignore[operator]
            for other in complete
        )

    return [None if one not in complete else not is_dominated(one) for one in models]
