"""Wrong arguments of the verbs end in an ``EvenhandError``, whatever their type."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import evenhand
from evenhand import api
from evenhand.auditing.config import AuditConfig, DecisionAuditConfig
from evenhand.certification.config import CertifyConfig
from evenhand.errors import EvenhandError, OptionError
from evenhand.groups.rankings.config import RankingConfig
from evenhand.individual.search.config import SearchConfig
from evenhand.llm.config import LanguageModelConfig
from evenhand.mitigation.config import MitigationConfig
from evenhand.shields.spec.configuration import ShieldConfig
from evenhand.subgroups.config import NumberSubgroupConfig, SubgroupConfig

RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame({"skill": RNG.integers(0, 10, 200), "sex": RNG.choice(["f", "m"], 200)})
HIRED = (PEOPLE["skill"] > 4).astype(int)
TABLE = PEOPLE.assign(hired=HIRED)
SEX = {"sex": PEOPLE["sex"]}


def model(frame):
    return (frame["skill"] - 2 * (frame["sex"] == "f") > 3).astype(int)


CALLS = {
    "model and data exchanged": lambda: evenhand.audit(PEOPLE, model, HIRED, protected=["sex"]),
    "target is a Series": lambda: evenhand.audit(model, PEOPLE, target=HIRED, protected=["sex"]),
    "protected twice": lambda: evenhand.audit(model, PEOPLE, HIRED, protected=["sex", "sex"]),
    "protected is ignored": lambda: evenhand.audit(model, TABLE, target="hired", protected=["sex"], ignore=["sex"]),
    "no model": lambda: evenhand.audit(None, PEOPLE, HIRED, protected=["sex"]),
    "too many positional arguments": lambda: evenhand.audit(model, PEOPLE, HIRED, "sex"),
    "show_people is text": lambda: evenhand.search(model, PEOPLE, HIRED, protected=["sex"], show_people="no"),
    "search: too many": lambda: evenhand.search(model, PEOPLE, HIRED, "hired"),
    "search: budget is text": lambda: evenhand.search(model, PEOPLE, HIRED, protected=["sex"], budget="300"),
    "search: no arguments": lambda: evenhand.search(),
    "subgroups: attributes twice": lambda: evenhand.find_subgroups(
        model, TABLE, target="hired", protected=["sex"], attributes=["skill"]
    ),
    "certify: a function": lambda: evenhand.certify(model, PEOPLE, HIRED, protected=["sex"]),
    "mitigate: findings are numbers": lambda: evenhand.mitigate(
        model, TABLE, target="hired", protected=["sex"], findings=[3]
    ),
    "compare: numbers": lambda: evenhand.compare(1, 2),
    "compare: frames": lambda: evenhand.compare(TABLE, TABLE),
    "compare: None": lambda: evenhand.compare(None, None),
    "rankings: two positional": lambda: evenhand.audit_rankings(np.arange(1, 201), SEX),
    "rankings: rank twice": lambda: evenhand.audit_rankings(
        rank=np.arange(1, 201), rank_by=np.arange(200), sensitive_features=SEX
    ),
    "predictions: features are a set": lambda: evenhand.audit_predictions(HIRED, sensitive_features={"sex"}),
    "shield: a number": lambda: evenhand.synthesize_shield(3),
    "shield: a frame": lambda: evenhand.synthesize_shield(TABLE),
    "shield: two positional": lambda: evenhand.synthesize_shield("a", "b"),
    "generator: no groups": lambda: evenhand.assess_generator(TABLE),
    "language model: a number": lambda: evenhand.audit_language_model(3, TABLE),
    "language model: a frame": lambda: evenhand.audit_language_model(TABLE, {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_refused(name):
    with pytest.raises(EvenhandError):
        CALLS[name]()


@pytest.mark.parametrize("verb", api.__all__)
def test_settings_that_there_are_not_are_refused(verb):
    with pytest.raises(EvenhandError, match="sead"):
        getattr(evenhand, verb)(sead=1)


def test_unknown_names_are_refused_with_the_nearest_name():
    with pytest.raises(OptionError, match="search has no argument 'favourabel'") as caught:
        evenhand.search(model, TABLE, target="hired", protected=["sex"], favourabel=1)
    assert "did you mean 'favourable'?" in str(caught.value)


OTHER_SETTINGS = {"answers", "certificate", "compile_limit", "data", "favourable_target", "metrics", "out", "test"}
OTHER_SETTINGS |= {"test_name", "workers"}

SETTINGS = {
    api.AuditSettings: [AuditConfig],
    api.DecisionAuditSettings: [DecisionAuditConfig],
    api.RankingSettings: [RankingConfig],
    api.CertifySettings: [CertifyConfig],
    api.SearchSettings: [SearchConfig],
    api.SubgroupSettings: [SubgroupConfig, NumberSubgroupConfig],
    api.MitigationSettings: [MitigationConfig],
    api.LanguageModelSettings: [LanguageModelConfig],
    api.ShieldEntries: [ShieldConfig],
}


@pytest.mark.parametrize("settings", SETTINGS)
def test_editors_complete_the_fields_of_a_configuration(settings):
    fields = {name for config in SETTINGS[settings] for name in config.model_fields} - {"protected"}
    names = settings.__annotations__.keys()
    assert fields <= names
    assert names - fields - api.ModelSettings.__annotations__.keys() <= OTHER_SETTINGS
