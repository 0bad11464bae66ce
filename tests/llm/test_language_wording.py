"""What the page of an audit says: certain gaps as certain, noise as noise, refusals the right way round, the price."""

import pytest

from evenhand.llm import LanguageModelAudit
from evenhand.stats import Unknown
from language_audits import BLACK, MAN, WOMAN, audit, gap


def headlines(result):
    """The sentences of the summary."""
    return result.document().blocks[0].items


def test_exchanged_groups_give_the_same_sentence():
    turned = gap(BLACK, MAN, -0.062, 0.041, refusals=0.03)
    first, second = (
        headlines(audit(comparisons=(one,))) for one in (turned, gap(MAN, BLACK, 0.062, 0.041, refusals=-0.03))
    )
    assert first[0] == second[0]
    refusals = [next(line for line in lines if "refuses" in line) for lines in (first, second)]
    assert refusals[0] == refusals[1]
    assert "about black woman more often than about white man, by 3.0 points" in refusals[0]


def test_what_is_unknown_says_why():
    unknown = Unknown(reason="a single name stands for no others")
    one = gap(MAN, WOMAN, 0.1, 0.01).model_copy(update={"gap": unknown, "flips": None, "p": None})
    result = audit(comparisons=(one,))
    assert "unknown: a single name stands for no others" in headlines(result)[0]
    assert "Noise, names and identity" not in result.to_markdown()


def test_json_and_table_hold_every_number():
    result = audit()
    assert LanguageModelAudit.from_json(result.to_json()) == result
    frame = result.to_frame()
    numbers = "gap gap_here refusal_gap unreadable_gap flips_asked_once flips_noise flips_names flips_identity"
    assert " ".join(frame["number"].unique()) == numbers
    scenario = frame[(frame["scenario"] == "clerk") & (frame["group_0"] == BLACK)]
    assert scenario["value"].tolist() == pytest.approx([0.092])
