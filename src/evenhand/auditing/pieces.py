"""The audit of a model and more people than fit into memory: the model is asked piece by piece, and people are counted.

What is said of groups and subgroups is said of everybody. Of single people, what could be otherwise is looked at in a
sample: flips, searches and proofs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenhand import datasets, groups, models, subgroups
from evenhand.auditing.analysis import LEAST_SECONDS, SUBGROUP_SHARE, audit, forecast_queries
from evenhand.auditing.config import AuditConfig
from evenhand.auditing.decisions import make_decision_card
from evenhand.auditing.parts import AuditParts
from evenhand.auditing.result import AuditResult
from evenhand.core import WorkClock
from evenhand.errors import DataError, OptionError
from evenhand.models import OutputKind, Scorer, Subject
from evenhand.schema import (
    ColumnRoles,
    People,
    RankedScores,
    RecordedDecisions,
    Schema,
    ScoreSums,
    Thresholds,
    describe_groups,
    encode,
)
from evenhand.typing import Booleans, Floats, Integers, Progress
from evenhand.workers import UnitStore, fingerprint_of

PIECES_SAMPLE = 50_000
"""People whose flips are counted, and around whom searches look."""

MOST_WORDS = 1_000
"""Words of a column that are looked for in all data where the schema is inferred."""

BINS = 1 << 20
"""The area under the ROC curve is counted in so many equal parts of the scores."""

ALIKE = 0.25
"""Where no more of the people in a sample than this share differ, those who are alike are counted first."""

KNOWN_BY = 500
"""People whose answers identify a model that is not given as a file."""

PROBED = 20
"""People whom an endpoint is asked about at the beginning, and again where an audit goes on."""

CLOSE = 1e-6
"""Scores that differ by no more than this are one answer."""


@dataclass(frozen=True)
class PiecesSource:
    """The people in Parquet files, and what their columns are for.

    Attributes:
        pieces: row groups of the files.
        roles: what the columns are for.
        name: how to call the data in reports.
    """

    pieces: Sequence[datasets.RowGroup]
    roles: ColumnRoles
    name: str

    def locate(self, column: str, row: int, value: Any) -> str:
        """Return how many people have a value, and in which row of which file the first of them is, for messages."""
        return datasets.describe_place(self.pieces, column, value)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(piece.rows for piece in self.pieces)


def audit_pieces(
    model: Any,
    source: PiecesSource,
    config: AuditConfig | None = None,
    *,
    state: Path | None = None,
    trust: bool = False,
    output: OutputKind | None = None,
    progress: Progress | None = None,
    clock: WorkClock | None = None,
    **settings: Any,
) -> AuditResult:
    """Audit a model on people who need not fit into memory.

    Args:
        model: as for ``Subject``.
        source: the people.
        config: as for ``audit``.
        state: a folder, in which what the model answered is counted piece by piece. An audit that was stopped goes on
            from there: the model is not asked again about a piece that is in it.
        trust: whether the model's file may run code.
        output: as for ``Subject``.
        progress: called as work goes on.
        clock: as for ``audit``.
        settings: fields of ``AuditConfig`` by name, in place of those in ``config``.

    Returns:
        The result of ``audit`` on a sample, with groups and subgroups of everybody.

    Raises:
        EvenhandError: the people, the model or the options cannot be used, or the state is that of another audit.
    """
    started = time.perf_counter()
    config = AuditConfig.of(config, settings)
    say = progress or (lambda what, share: None)
    _refuse_settings(config)
    say("looking at the rows", 0.0)
    drawn = datasets.draw_rows(source.pieces, PIECES_SAMPLE, config.seed, MOST_WORDS)
    schema = source.roles.read(drawn.occurring, location=source.name, locate=source.locate).schema
    if schema.target.kind != "label":
        raise OptionError(
            f"{schema.target.name!r} holds {'numbers' if schema.target.is_number else 'several labels'}, and models "
            "are asked piece by piece where they decide yes or no",
            hint="audit a sample of the rows",
        )
    sample = encode(schema, drawn.frame, location=source.name, locate=source.locate)
    subject = Subject(model, sample, data_name=source.name, trust=trust, output=output)
    if config.threshold:
        thresholds = Thresholds.parse(config.threshold)
        thresholds.check_schema(schema)
        subject = replace(subject, thresholds=thresholds)
    probed = 2 * PROBED if state is not None and _is_endpoint(model) else 0
    if config.budget is not None and config.budget < source.rows + probed + forecast_queries(sample, config):
        raise OptionError(
            f"the budget of {config.budget:,} rows does not pay for the {source.rows:,} people in the data and the "
            f"{len(sample):,} of a sample",
            location="`budget=`",
            hint="give a larger budget, or audit a sample of the rows",
        )
    kept = None if state is None else UnitStore(state, "audit", _describe(subject, source, config))
    if kept is not None and _is_endpoint(model):
        _require_same_answers(subject, kept)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if state is None else state
        counted = _count_pieces(subject, _join_alike(source, drawn.frame, schema, folder, say), kept, say)
    found = audit(subject, config, progress=lambda what, share: say(what, 0.7 + 0.3 * share), clock=clock)
    by_group = groups.measure_recorded_decisions(
        counted,
        confidence=config.confidence,
        min_group_size=config.min_group_size,
        reference=config.reference,
        seed=config.seed,
    )
    about = "flip rates, searches and proofs"
    reason = f"they look at {len(sample):,} of {source.rows:,} people, drawn at random; groups and subgroups are of all"
    parts = AuditParts(not_run=list(found.not_run))
    parts.skip(f"{about} of everybody", reason)
    limit = None if config.time_limit is None else max(LEAST_SECONDS, SUBGROUP_SHARE * config.time_limit)
    found_by = parts.run(
        "search for subgroups of everybody",
        lambda: subgroups.find_subgroups_of_decisions(
            counted, confidence=config.confidence, seed=config.seed, time_limit=limit
        ),
    )
    card = make_decision_card(counted, source.name)
    return found.model_copy(
        update={
            "groups": by_group,
            "subgroups": found_by,
            "data": card.model_copy(update={"dropped": source.rows - counted.people.size}),
            "not_run": parts.end(),
            "interrupted": found.interrupted or parts.interrupted,
            "seconds": time.perf_counter() - started,
        }
    )


def _join_alike(source: PiecesSource, sample: Any, schema: Schema, folder: Path, say: Progress) -> PiecesSource:
    """Return the people with those who are alike counted, so that the model is asked about each profile once.

    As they are where a sample shows that few are alike, or what a model is given is taken from its own row.
    """
    columns = [*schema.columns, schema.target.name]
    if schema.carries_rows or len(sample[columns].drop_duplicates()) > ALIKE * len(sample):
        return source
    say("counting people who are alike", 0.02)
    found = datasets.count_profiles(source.pieces, columns, folder / "profiles.parquet")
    return source if found is None else replace(source, pieces=found)


def _refuse_settings(config: AuditConfig) -> None:
    for name in ("thresholds", "keep_decisions"):
        if getattr(config, name):
            raise OptionError(
                f"`{name}=` needs every person, and these are counted piece by piece",
                hint="leave it out, or audit a sample of the rows",
            )


def _count_pieces(subject: Subject, source: PiecesSource, state: UnitStore | None, say: Progress) -> RecordedDecisions:
    """Ask the model about every piece that is not in the state, and add up."""
    total: _Counted | None = None
    done, schema = 0, subject.people.schema
    for number, piece in enumerate(source.pieces):
        say(f"asking the model ({done:,} of {source.rows:,})", 0.02 + 0.68 * done / max(source.rows, 1))
        arrays = None if state is None else state.read(number)
        if arrays is not None:
            counted = _Counted(**arrays)
        else:
            parts = [_count(subject, frame, schema, source) for frame in piece.frames()]
            counted = _Counted.add(parts)
            if state is not None:
                state.write(number, vars(counted))
        total = counted if total is None else _Counted.add([total, counted])
        done += piece.rows
    if total is None or not total.counts.sum():
        raise DataError("there are no rows", location=source.name)
    return total.decisions(schema, subject)


@dataclass(frozen=True)
class _Counted:
    """People counted by protected attributes, true label and decision, with sums of their scores.

    Attributes:
        key: entries of the protected attributes, true label, decision and tenth, shape (cells, attributes + 3).
        counts: people in each cell.
        sums: what ``ScoreSums.ADDED`` names, shape (5, cells).
        ends: the least and the largest score in each cell, shape (2, cells); NaN without scores.
        bins: which of the ``BINS`` equal parts of the scores anybody is in, ascending, shape (filled,).
        ranked: people with and without the favourable true label in each of these, shape (2, filled).
        spans: the least and the largest score in each of these, shape (2, filled).
    """

    key: Floats
    counts: Integers
    sums: Integers
    ends: Floats
    bins: Integers
    ranked: Integers
    spans: Floats

    @classmethod
    def add(cls, parts: Sequence[_Counted]) -> _Counted:
        """Return the counts of several together, each kind of people once."""
        key = np.concatenate([one.key for one in parts])
        order = np.lexsort(key.T[::-1])
        sorted_key = key[order]
        # Once sorted, the same people lie next to each other; a missing entry is like another one.
        same = (sorted_key[1:] == sorted_key[:-1]) | (np.isnan(sorted_key[1:]) & np.isnan(sorted_key[:-1]))
        first = np.flatnonzero(np.r_[True, ~same.all(axis=1)][: len(key)])
        ends = np.concatenate([one.ends for one in parts], axis=1)[:, order]
        lowest, highest = (end.reduceat(row, first) for end, row in zip((np.fmin, np.fmax), ends, strict=True))
        bins, place = np.unique(np.concatenate([one.bins for one in parts]), return_inverse=True)
        ranked = np.zeros((2, len(bins)), dtype=np.int64)
        for people, more in zip(ranked, np.concatenate([one.ranked for one in parts], axis=1), strict=True):
            np.add.at(people, place, more)
        spans = np.array([np.full(len(bins), np.inf), np.full(len(bins), -np.inf)])
        given = np.concatenate([one.spans for one in parts], axis=1)
        np.minimum.at(spans[0], place, given[0])
        np.maximum.at(spans[1], place, given[1])
        return cls(
            sorted_key[first],
            np.add.reduceat(np.concatenate([one.counts for one in parts])[order], first),
            np.add.reduceat(np.concatenate([one.sums for one in parts], axis=1)[:, order], first, axis=1),
            np.array([lowest, highest]),
            bins,
            ranked,
            spans,
        )

    def decisions(self, schema: Schema, subject: Subject) -> RecordedDecisions:
        """Return what was decided about everybody."""
        target, names = schema.target, schema.protected
        about = {"name": target.name, "favourable": target.favourable, "values": list(target.values or ())}
        own = describe_groups(None, names, about, schema, accept=False)
        entries, (labels, selected, tenth) = self.key[:, :-3], self.key[:, -3:].T.astype(np.int64)
        rows = np.arange(len(self.counts))
        if own.carries_rows:
            entries = np.column_stack([entries, rows])
        sums = None
        if not np.isnan(self.ends).all():
            lowest, highest = self.ends
            added = dict(zip(ScoreSums.ADDED, self.sums, strict=True))
            sums = ScoreSums(tenth, **added, lowest=lowest, highest=highest, unusable=0 * tenth)
            if sums.range[0] >= 0 and sums.range[1] <= 1:
                (positive, negative), (least, largest) = self.ranked, self.spans
                sums = replace(sums, area=RankedScores(positive, negative, least < largest))
        people = People(own, entries, labels, rows, 0, None, counts=self.counts)
        return RecordedDecisions(
            people, selected == 1, score_sums=sums, truth=target.name, thresholds=subject.thresholds, decided_by="model"
        )


def _count(subject: Subject, frame: Any, schema: Schema, source: PiecesSource) -> _Counted:
    """Ask the model about some people, and count them."""
    counts = frame.pop(datasets.PROFILES).to_numpy() if datasets.PROFILES in frame.columns else None
    locate = source.locate if counts is None else None
    people = encode(schema, frame, location=source.name, counts=counts, locate=locate)
    # A model that is given columns as they stand in the data is given those of these people.
    scorer: Scorer = subject.scorer
    if schema.carries_rows:
        scorer = models.change_templates(scorer, lambda _: people.frame)
    reply = models.ask_people(scorer, people.individuals)
    selected = np.asarray(reply.labels == scorer.favourable)
    scores = None if scorer.label_only else reply.scores[:, scorer.favourable]
    return _add_up(people, selected, scores)


def _add_up(people: People, selected: Booleans, scores: Floats | None) -> _Counted:
    assert people.labels is not None
    one = np.ones(len(people), dtype=np.int64) if people.counts is None else people.counts
    bins, ranked, spans, sums = one[:0], np.zeros((2, 0), dtype=np.int64), np.zeros((2, 0)), None
    if scores is not None:
        sums, bins = ScoreSums.of(scores, one), np.floor(np.clip(scores, 0, 1) * BINS).astype(np.int64)
        ranked, spans = np.array([one * people.favourable, one * ~people.favourable]), np.array([scores, scores])
    entries = people.individuals[:, people.schema.positions(people.schema.protected)]
    columns = [entries, people.labels, selected, one * 0 if sums is None else sums.tenth]
    key = np.column_stack(columns)
    each = np.zeros((len(ScoreSums.ADDED), len(one)), dtype=np.int64)
    ends = np.full((2, len(one)), np.nan)
    if sums is not None:
        each = np.array([getattr(sums, name) for name in ScoreSums.ADDED])
        ends = np.array([sums.lowest, sums.highest])
    return _Counted.add([_Counted(key, one, each, ends, bins, ranked, spans)])


def _describe(subject: Subject, source: PiecesSource, config: AuditConfig) -> dict[str, str]:
    """Return what counts in pieces depend on, each as a text: the same of the same audit.

    A file is identified by its content, an endpoint by its URL (see ``_require_same_answers``), any other model by its
    answers about some people.
    """
    files = []
    for path in dict.fromkeys(piece.path for piece in source.pieces):
        about = path.stat()
        files.append(f"{path.resolve()} {about.st_size} {about.st_mtime_ns}")
    model = subject.model
    if isinstance(model, str | Path) and Path(model).is_file():
        fingerprint = fingerprint_of("model", Path(model).read_bytes())
    elif _is_endpoint(model):
        fingerprint = str(model)
    else:
        reply = models.ask_people(subject.scorer, subject.people.individuals[:KNOWN_BY])
        fingerprint = fingerprint_of("model", model if isinstance(model, str) else "", reply.labels, reply.scores)
    return {
        "model": fingerprint,
        "data": fingerprint_of("data", files),
        "schema": fingerprint_of("schema", subject.people.schema),
        "thresholds": ", ".join(config.threshold),
    }


def _is_endpoint(model: Any) -> bool:
    return isinstance(model, str) and "://" in model


def _require_same_answers(subject: Subject, kept: UnitStore) -> None:
    """Ask an endpoint about some people, and refuse it where it answers otherwise than when the audit was begun.

    An endpoint that gave two answers at the beginning answers differently each time: nothing can be said of it.

    Raises:
        OptionError: another model answers at the same URL.
    """
    people = subject.people.individuals[:PROBED]

    def ask() -> models.Reply:
        return models.FreshScorer(subject.scorer).reply(people)

    before = kept.read("answers")
    if before is None:
        first, second = ask(), ask()
        kept.write(
            "answers",
            {"labels": np.array([first.labels, second.labels]), "scores": np.array([first.scores, second.scores])},
        )
        return
    (labels, second_labels), (scores, second_scores) = before["labels"], before["scores"]
    if _differ(labels, second_labels, scores, second_scores).any():
        return
    now = ask()
    changed = _differ(labels, now.labels, scores, now.scores)
    if changed.any():
        raise OptionError(
            f"the model answers differently from when the audit was begun: about {changed.sum()} of {len(people)} "
            "people who it was asked about again",
            location=str(subject.model),
            hint="name another folder as `state=` to begin again with the model that answers now",
        )


def _differ(labels: Integers, other_labels: Integers, scores: Floats, other_scores: Floats) -> Booleans:
    """Return about whom two answers differ, shape (n,)."""
    return np.asarray((labels != other_labels) | (np.abs(scores - other_scores) > CLOSE).any(axis=1))
