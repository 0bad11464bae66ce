"""Thresholds: how they are parsed, and whom they select."""

import numpy as np
import pytest

from evenhand.errors import OptionError
from evenhand.schema.thresholds import Threshold, describe_scale, looks_like_points


def test_reads_numbers_and_text():
    assert Threshold.parse(0.4) == Threshold.parse("0.4") == Threshold(value=0.4)


@pytest.mark.parametrize("threshold", ["half", "nan", [], [0.4, 0.5], "sex=F:0.4"])
def test_rejects_invalid_thresholds(threshold):
    with pytest.raises(OptionError):
        Threshold.parse(threshold)


def test_scores_at_the_threshold_are_selected():
    scores = np.array([0.5, 0.4, 0.6])
    assert Threshold.parse(0.5).select(scores).tolist() == [True, False, True]
    assert Threshold.parse(0.5, low_is_good=True).select(scores).tolist() == [True, True, False]


def test_scores_are_never_rescaled_silently():
    points = np.array([3.0, 50.0, 98.0])
    with pytest.raises(OptionError) as error:
        Threshold.parse(0.5).check_scale(points)
    assert "`threshold=50`" in str(error.value)
    Threshold.parse(50).check_scale(points)
    with pytest.raises(OptionError) as error:
        Threshold.parse(50).check_scale(points / 100)
    assert "`threshold=0.5`" in str(error.value)
    with pytest.raises(OptionError, match="between 300 and 980"):
        Threshold.parse(0.5).check_scale(10 * points + [270, 0, 0])
    Threshold.parse(0.5).check_scale(np.array([-3.0, 4.0]))  # log-odds may be cut anywhere
    assert looks_like_points(points)
    assert not looks_like_points(points / 100)
    assert not looks_like_points(np.array([-1.0, 50.0]))
    assert "3 to 98" in describe_scale(points)
    assert "percentages" in describe_scale(points)
    assert "percentages" not in describe_scale(np.array([-3.0, 4.0]))
