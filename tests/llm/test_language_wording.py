"""What the page of an audit says: certain gaps as certain, noise as noise, refusals the right way round, the price."""

import pytest

from evenhand.core.document import Fold, Note, Pair, Table
from evenhand.llm import LanguageModelAudit
from evenhand.llm.result import Narrowing
from evenhand.llm.wording import narrowing_sentence, show_points
from evenhand.stats import Unknown
from language_audits import BLACK, MAN, WOMAN, audit, estimated, gap

WOULD = "would narrow the interval"


def headlines(result):
    """The sentences of the summary."""
    return result.document().blocks[0].items


def test_a_certain_gap_is_said_with_both_rates_and_its_interval():
    assert headlines(audit())[0] == (
        "The group white man gets the favourable answer more often than black woman, by 6.2 points (41.2 % against "
        "35.0 %; 97.5 % interval 2.1 to 10.3 points over other templates and names, adjusted for 2 pairs of groups)."
    )


def test_exchanged_groups_give_the_same_sentence():
    turned = gap(BLACK, MAN, -0.062, 0.041, refusals=0.03)
    first, second = (
        headlines(audit(comparisons=(one,))) for one in (turned, gap(MAN, BLACK, 0.062, 0.041, refusals=-0.03))
    )
    assert first[0] == second[0]
    refusals = [next(line for line in lines if "refuses" in line) for lines in (first, second)]
    assert refusals[0] == refusals[1]
    assert (
        "about black woman more often than about white man, by 3.0 points (97.5 % interval 1.5 to 4.5 points)"
        in refusals[0]
    )


def test_a_gap_whose_interval_holds_0_is_called_no_difference():
    assert headlines(audit())[1].startswith("No difference between white man and white woman is certain: +1.2 points")
    assert not any("white woman more often" in line for line in headlines(audit()))


def test_flips_are_split_and_an_uncertain_identity_says_so():
    lines = [line for line in headlines(audit()) if line.startswith("Asked once each")]
    assert "36.8 % of pairs: 32.0 % own noise, 2.8 % names, and 2.0 % identity" in lines[0]
    assert lines[0].endswith("so the groups play a part.")
    assert lines[1].endswith("so it is not certain that the groups play a part.")


def test_what_is_unknown_says_why():
    unknown = Unknown(reason="a single name stands for no others")
    one = gap(MAN, WOMAN, 0.1, 0.01).model_copy(update={"gap": unknown, "flips": None, "p": None})
    result = audit(comparisons=(one,))
    assert "unknown: a single name stands for no others" in headlines(result)[0]
    assert "Noise, names and identity" not in result.to_markdown()


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("score", "a higher probability of the favourable answer"),
        ("number", "a higher number"),
        ("rank", "placed higher"),
    ],
)
def test_other_outcomes_have_their_own_words(outcome, words):
    result = audit(outcome=outcome, comparisons=(gap(MAN, BLACK, 0.062, 0.041),))
    assert words in headlines(result)[0]
    assert ("points" in headlines(result)[0]) == (outcome == "score")
    assert result.plot() is not None


def test_confirmed_pairs_stand_side_by_side_and_the_widest_is_first():
    blocks = audit().document().blocks
    pairs = [one for one in blocks if isinstance(one, Pair)]
    assert [one.title for one in pairs] == ["Row 4, clerk", "Row 18, clerk"]
    assert pairs[0].first.values == {"group": MAN, "name": "Greg Baker"}
    assert (pairs[0].first.favourable, pairs[0].second.favourable) == (True, False)
    folded = next(one for one in blocks if isinstance(one, Fold))
    assert folded.summary == "1 more pair"


def test_cautions_and_warnings_about_names_come_before_any_number():
    blocks = audit().document().blocks
    assert [one.text for one in blocks[1:3] if isinstance(one, Note)] == [
        "3 of 5,510 questions have no answer and are excluded from all numbers.",
        "Name list: names of black woman are longer: 6.9 letters on average against 4.7",
    ]


def test_refused_unreadable_and_cut_off_are_listed_by_group():
    table = next(one for one in audit().document().blocks if isinstance(one, Table) and "each group" in one.caption)
    assert [column.name for column in table.columns][4:] == ["refused", "unreadable", "cut off", "failed"]
    assert [row.cells[0] for row in table.rows] == [MAN, BLACK, WOMAN]
    assert table.rows[1].cells[4].text == "5.0 %"


@pytest.mark.parametrize(
    ("narrowing", "said"),
    [
        (Narrowing(what="names", more=12), f"about 12 more names per group {WOULD}; more calls will not help"),
        (Narrowing(what="calls", more=900), f"about 900 more calls {WOULD}"),
        (Narrowing(what="templates"), f"more templates {WOULD}; more calls will not help"),
        (Narrowing(what="nothing"), "the interval is as narrow as planned"),
    ],
)
def test_what_would_narrow_the_interval_is_said(narrowing, said):
    assert narrowing_sentence(narrowing) == said


@pytest.mark.parametrize(("value", "text"), [(0.062, "+6.2 points"), (-0.5, "-50.0 points"), (0.0, "+0.0 points")])
def test_points_have_a_sign(value, text):
    assert show_points(estimated(value, 0.01)).text == text


def test_json_and_table_hold_every_number():
    result = audit()
    assert LanguageModelAudit.from_json(result.to_json()) == result
    frame = result.to_frame()
    assert list(frame["number"].unique()) == [
        "gap",
        "gap_here",
        "refusal_gap",
        "unreadable_gap",
        "flips_asked_once",
        "flips_noise",
        "flips_names",
        "flips_identity",
    ]
    scenario = frame[(frame["scenario"] == "clerk") & (frame["group_0"] == BLACK)]
    assert scenario["value"].tolist() == pytest.approx([0.092])
