"""Numbers that say what they are, and the constructors that count."""

import pytest
from pydantic import TypeAdapter

from evenhand.errors import OptionError
from evenhand.stats import Estimated, Observed, Proved, Quantity, Unknown, clopper_pearson
from evenhand.stats.proportion import estimated_rate, observed_rate, observed_rates
from evenhand.stats.quantity import format_quantity, quantity_value


def test_observed_rate_is_exact():
    found = observed_rate(3, 40, 0.9)
    assert (found.value, found.n, found.confidence) == (0.075, 40, 0.9)
    assert (found.low, found.high) == pytest.approx(tuple(clopper_pearson(3, 40, 0.9)))
    assert "Clopper-Pearson" in found.method


def test_estimated_rate_names_its_population():
    found = estimated_rate(0, 1000, "everyone in the domain", 0.99)
    assert isinstance(found, Estimated)
    assert (found.value, found.low, found.n, found.population) == (0, 0, 1000, "everyone in the domain")
    assert found.high == pytest.approx(1 - 0.005 ** (1 / 1000))


def test_nobody_counted_is_unknown_never_nan():
    assert observed_rate(0, 0) == Unknown(reason="there are no people to count")
    assert observed_rate(0, 0, if_empty="no women") == Unknown(reason="no women")
    assert estimated_rate(0, 0, "everyone") == Unknown(reason="no one was sampled")
    mixed = observed_rates([1, 0], [2, 0])
    assert [type(rate) for rate in mixed] == [Observed, Unknown]


def test_impossible_counts_are_refused():
    for build in (lambda: observed_rate(3, 2), lambda: estimated_rate(3, 2, "everyone")):
        with pytest.raises(OptionError, match="got 3 of 2"):
            build()


EVERY_KIND = [
    Proved(value=0.5, how="counting"),
    observed_rate(1, 4),
    estimated_rate(1, 4, "everyone"),
    Unknown(reason="nobody"),
]


@pytest.mark.parametrize("quantity", EVERY_KIND, ids=lambda quantity: quantity.kind)
def test_every_kind_survives_json(quantity):
    adapter = TypeAdapter(Quantity)
    assert adapter.validate_json(adapter.dump_json(quantity)) == quantity
    assert quantity_value(quantity) == (None if quantity.kind == "unknown" else quantity.value)


def test_every_kind_says_what_it_is():
    assert format_quantity(EVERY_KIND[0]) == "50.0 % (proved)"
    assert format_quantity(EVERY_KIND[1]) == "25.0 % (observed on 4 people, 95 % interval 0.6 to 80.6 %)"
    assert (
        format_quantity(EVERY_KIND[2]) == "25.0 % (estimated from 4 sampled individuals, 95 % interval 0.6 to 80.6 %)"
    )
    assert format_quantity(EVERY_KIND[3]) == "unknown (nobody)"
    assert format_quantity(EVERY_KIND[0], "auc") == "0.50 (proved)"
