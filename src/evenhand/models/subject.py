"""Subject of an analysis: a model and people."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from evenhand.core.document import SubjectCard
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.base import LoadRequest
from evenhand.models.load import load_regressor, open_model
from evenhand.models.outputs import OutputKind
from evenhand.models.replies import QuestionLedger
from evenhand.models.scorer import Regressor, Scorer
from evenhand.models.thresholds import ThresholdScorer
from evenhand.models.trees.ensemble import TreeEnsemble
from evenhand.models.white_box import extract_white_box, refuse_opaque
from evenhand.schema.people import People, PeopleWeights
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.schema.thresholds import Threshold


@dataclass(frozen=True)
class Subject:
    """A model and the people it is applied to.

    Attributes:
        model: An object, a file, a URL or ``module:function`` (see ``load_model``).
        people: The people, with their schema.
        data_name: Name of the data in reports.
        model_name: Name of the model in reports. Default: its file, URL or type.
        trust: Whether the model's file may run code.
        output: Meaning of the model's numeric outputs. None to infer it from their values (see ``load_model``).
        threshold: Minimum score for the favourable label. None for the model's own decisions.
        weights: Weight of each person in group metrics. None for equal weights.
        memberships: Probabilities of group membership, if groups are not observed.
        held_out: Whether it is known that the model was not trained on these people.
        ledger: Ledger of the queries, with a budget if there is one.
        requested: Reading of ``RUNNING_SECONDS`` before the people were read, from which the time limit of an audit
            counts. None to count from the start of the audit.
    """

    model: Any
    people: People
    data_name: str = "data"
    model_name: str | None = None
    trust: bool = False
    output: OutputKind | None = None
    threshold: Threshold | None = None
    weights: PeopleWeights | None = None
    memberships: tuple[GroupProbabilities, ...] = ()
    held_out: bool = False
    ledger: QuestionLedger = field(default_factory=QuestionLedger)
    requested: float | None = None

    @cached_property
    def scorer(self) -> Scorer:
        """The model, loaded on first access. It receives frames of the same type as the data.

        Raises:
            EvenhandError: The model does not exist or does not fit the data.
        """
        people = self.people
        people.schema.target.require_labels("this analysis")
        request = LoadRequest(
            people.schema, people.frame, self.trust, self.model_name, self.ledger, people.untyped, self.output
        )
        scorer: Scorer = open_model(self.model, request)
        return scorer if self.threshold is None else ThresholdScorer(scorer, self.threshold)

    @cached_property
    def regressor(self) -> Regressor:
        """The model for a numeric target, loaded on first access.

        Raises:
            EvenhandError: The model does not exist, or it returns no numbers for these rows.
        """
        people = self.people
        return load_regressor(
            self.model,
            people.schema,
            like=people.frame,
            trust=self.trust,
            name=self.model_name,
            ledger=self.ledger,
            untyped=people.untyped,
            output=self.output,
        )

    @property
    def white_box(self) -> AdditiveNetwork | TreeEnsemble:
        """The model as a white box.

        Raises:
            NotAdditiveError: The model is not a white box. Endpoints and functions are rejected without a query.
        """
        refuse_opaque(self.model)
        return extract_white_box(self.regressor if self.people.schema.target.is_number else self.scorer)

    @property
    def card(self) -> SubjectCard:
        """Description of the subject for documents."""
        target = self.people.schema.target
        is_number = target.is_number
        return SubjectCard(
            name=self.regressor.name if is_number else self.scorer.name,
            data=self.data_name,
            people=len(self.people),
            target=target.name,
            favourable=str(target.favourable if is_number else self.scorer.classes[self.scorer.favourable]),
            label_only=not is_number and self.scorer.label_only,
        )
