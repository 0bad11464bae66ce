"""What an analysis is about: a model, and the people that it decides about."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from evenhand.core.document import SubjectCard
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.ledger import QuestionLedger
from evenhand.models.load import load_model, load_regressor
from evenhand.models.outputs import OutputKind, refuse_stated
from evenhand.models.scorer import Regressor, Scorer
from evenhand.models.thresholds import ThresholdScorer
from evenhand.models.trees.ensemble import TreeEnsemble
from evenhand.models.white_box import extract_white_box, refuse_opaque
from evenhand.schema.people import People
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.schema.thresholds import Thresholds
from evenhand.schema.weights import PeopleWeights


@dataclass(frozen=True)
class Subject:
    """A model, and the people that it decides about.

    Attributes:
        model: an object, a file, a URL or ``module:function`` (see ``load_model``).
        people: the people, with their schema.
        data_name: how to call them in reports.
        model_name: how to call the model; by default its file, URL or type.
        trust: whether the model's file may run code.
        output: meaning of the model's numeric outputs; None to decide it by their values (see ``load_model``).
        thresholds: from which score on the favourable label is given, in place of the model's own decision.
        weights: how much each person counts in what is measured of groups; None where all count alike.
        memberships: groups of the people that are known by probability alone.
        ledger: counts whom the model is asked about, and keeps to a budget if it has one.
    """

    model: Any
    people: People
    data_name: str = "data"
    model_name: str | None = None
    trust: bool = False
    output: OutputKind | None = None
    thresholds: Thresholds | None = None
    weights: PeopleWeights | None = None
    memberships: tuple[GroupProbabilities, ...] = ()
    ledger: QuestionLedger = field(default_factory=QuestionLedger)

    @cached_property
    def scorer(self) -> Scorer:
        """The model, loaded when it is first asked; it is given frames of the people's type.

        Raises:
            EvenhandError: there is no such model, or it does not fit the people.
        """
        scorer = load_model(self.model, self.people.schema, output=self.output, **self._load_options)
        return scorer if self.thresholds is None else ThresholdScorer(scorer, self.thresholds)

    @cached_property
    def regressor(self) -> Regressor:
        """The model where its target is a number, loaded when it is first asked.

        Raises:
            EvenhandError: there is no such model, or it gives no numbers for these people.
        """
        refuse_stated(self.output, self.model_name or "model")
        return load_regressor(self.model, self.people.schema, **self._load_options)

    @property
    def _load_options(self) -> dict[str, Any]:
        people = self.people
        return {
            "like": people.frame,
            "untyped": people.untyped,
            "trust": self.trust,
            "name": self.model_name,
            "ledger": self.ledger,
        }

    @property
    def white_box(self) -> AdditiveNetwork | TreeEnsemble:
        """The model as a white box.

        Raises:
            NotAdditiveError: it cannot be read from the inside; an endpoint or a function is not asked to find out.
        """
        refuse_opaque(self.model)
        return extract_white_box(self.regressor if self.people.schema.target.is_number else self.scorer)

    @property
    def card(self) -> SubjectCard:
        """What a document of findings says about the subject."""
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
