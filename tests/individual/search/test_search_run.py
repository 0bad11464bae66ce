"""A search as a whole: rates first, results, limits, interrupts, going on later, several protected attributes."""

import numpy as np
import pytest
from search_cases import DOMAIN, SCHEMA, BlackBox, LabelOnly, flipping, network, people, profiles

from evenhand.errors import OptionError
from evenhand.individual import search
from evenhand.individual.search.result import SearchResult
from evenhand.individual.search.space import ProfileSpace
from evenhand.individual.white_box import WhiteBoxScorer
from evenhand.models import predict_labels
from evenhand.models.additive.network import network_from_dense
from support import small_schema


def test_the_rate_comes_first_and_covers_the_truth():
    model, data = network(3), people(60, 1)
    result = search.search(model, data, method="random", seeds=5, local=5)
    truth = len(flipping(model, ProfileSpace(data))) / len(DOMAIN)
    names = [rate.population for rate in result.rates]
    assert names == [
        "independent attributes, each as in the data",
        "the people in the data",
        "everyone in the domain, uniformly",
    ]
    assert result.rate == result.rates[0]
    assert result.rates[2].rate.low <= truth <= result.rates[2].rate.high
    assert [rate.n for rate in result.rates] == [4096] * 3
    labels = predict_labels(model, ProfileSpace(data).rows(ProfileSpace(data).split(data.individuals)[0])).reshape(
        -1, 2
    )
    among = (labels[:, 0] != labels[:, 1]).mean()
    assert result.rates[1].rate.low <= among <= result.rates[1].rate.high
    alone = search.search(model, data, method="random", seeds=5, local=5, samples=0)
    assert 0 < result.queries - alone.queries <= 3 * 2 * len(DOMAIN)  # each profile of the domain once per rate


def test_rates_take_no_more_than_a_tenth_of_a_budget():
    model = LabelOnly(network(3))
    result = search.search(model, people(60, 1), method="random", budget=600)
    assert [rate.n for rate in result.rates] == [10, 10, 10]
    assert result.queries <= 600
    assert search.search(model, people(60, 1), method="random", budget=5).rates == ()


def test_none_found_gives_an_upper_bound():
    model = network_from_dense(SCHEMA, [(np.zeros((SCHEMA.width, 1)), np.array([1.0]))])
    result = search.search(model, SCHEMA, method="random", seeds=10, local=10)
    assert (result.profiles, result.valid, result.examples) == (0, None, ())
    assert result.rate.rate.value == 0
    # Clopper-Pearson for 0 of 4096, two-sided 95 %: 1 - 0.025 ** (1 / 4096).
    assert result.rate.rate.high == pytest.approx(1 - 0.025 ** (1 / 4096), rel=1e-9)
    assert len(result.to_frame()) == 0


def test_tables_are_in_the_data_s_own_words():
    model = network(3)
    result = search.search(model, people(60, 1), method="random")
    frame = result.to_frame()
    assert set(frame["job"]) <= {"cook", "clerk", "driver"}
    assert set(frame["level"]) <= {"low", "mid", "high"}
    for _, row in frame.iterrows():
        entries = [row["grade"], SCHEMA["job"].values.index(row["job"]), row["years"]]
        level = SCHEMA["level"].values.index(row["level"])
        for side in ("worse", "better"):
            sex = SCHEMA["sex"].values.index(row[f"sex ({side})"])
            individual = np.array([[entries[0], sex, *entries[1:], level]], dtype=float)
            assert model.classes[model.predict(individual)[0]] == row[f"label ({side})"]
            assert model.scores(individual)[0, 1] == pytest.approx(row[f"score ({side})"])
    assert (frame["label (worse)"] == "no").all()
    assert (frame["label (better)"] == "yes").all()
    assert (frame["gap"] > 0).all()


class Interrupted(BlackBox):
    """Somebody presses Ctrl-C after so many calls."""

    after = 12

    def predict(self, individuals):
        if self.calls == self.after:
            self.calls += 1
            raise KeyboardInterrupt
        return super().predict(individuals)


def test_an_interrupt_keeps_what_was_profiles():
    whole = search.search(BlackBox(network(3)), people(60, 1), method="maft", seeds=30, local=30, samples=0)
    model = Interrupted(network(3))
    part = search.search(model, people(60, 1), method="maft", seeds=30, local=30, samples=0)
    assert part.interrupted
    assert part.stopped_by == "interrupt"
    assert 0 < part.profiles < whole.profiles
    assert profiles(part) < profiles(whole)


def test_limits_stop_a_search():
    ended = search.search(network(3), people(60, 1), method="random", time_limit=1e-9, samples=0)
    assert (ended.stopped_by, ended.profiles) == ("time", 0)
    for name in ("maft", "themis"):
        spent = search.search(network(3), people(60, 1), method=name, budget=20_000, samples=0, allow_infeasible=True)
        # The domain is small: either the budget is spent, or nothing new is left to be asked.
        assert spent.stopped_by in ("budget", "plan")
        assert spent.queries <= 20_000


def test_progress_rises_to_one():
    told: list[float] = []
    search.search(
        network(3), people(60, 1), method="maft", budget=2000, progress=lambda what, share: told.append(share)
    )
    assert told == sorted(told)
    assert told[-1] == 1.0


JOINT = small_schema("no perhaps yes", grade=(0, 9), sex="f m *", origin="a b c *")


def joint_model():
    # no: 4.5; perhaps: grade; yes: 2 grade - 8 + 3 (m and c) by a ReLU that opens for both together only.
    first = np.zeros((3, 4))
    first[0, 0] = 1
    first[1, 1] = first[2, 1] = 1
    layers = [(first, np.array([0, -2.0, 0, 0])), (np.zeros((4, 3)), np.array([4.5, 0.0, -8.0]))]
    layers[1][0][0] = [0, 1, 2]
    layers[1][0][1] = [0, 0, 3]
    return network_from_dense(JOINT, layers, classes=("no", "perhaps", "yes"), favourable=2)


def test_intersections_and_several_labels():
    model = joint_model()
    alone = search.search(model, JOINT, protected=["sex"], method="random", seeds=10, local=30)
    both = search.search(model, JOINT, method="random", seeds=10, local=30)
    assert both.protected == ("sex", "origin")
    # m and c get yes where 2 g - 5 > max(4.5, g), from 6 on; the others where 2 g - 8 > g, at 9 alone.
    assert profiles(both) == {(6,), (7,), (8,)}
    assert profiles(alone) == {(6, 2), (7, 2), (8, 2)}
    labels = both.table.labels.reshape(-1, 2, 3)
    assert (labels[:, 1, 2] == 2).all()
    assert (np.delete(labels.reshape(-1, 6), 5, axis=1) == labels[:, :1, 0]).all()
    assert all(example.better.values == {"sex": "m", "origin": "c"} for example in both.examples)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"method": "magic"}, "there is no method 'magic'"),
        ({"seeds": 0}, "seeds: expected a whole number of at least 1"),
        ({"budget": 0}, "budget: expected a whole number of at least 1, got 0"),
        ({"time_limit": 0}, "time_limit: expected a number above 0"),
        ({"confidence": 1.0}, "between 0 and 1"),
        ({"local": -1}, "local: expected a whole number of at least 0"),
        ({"constraints": ["grade > 7"]}, "found no individual that satisfies the constraints"),
        ({"protected": ["height"]}, "there is no attribute 'height'"),
    ],
)
def test_bad_options_are_refused(more, message):
    source = people(20, 0)
    with (
        pytest.raises(OptionError, match=message)
        if "height" not in message
        else pytest.raises(ValueError, match=message)
    ):
        search.search(network(3), source, **({"method": "random", "samples": 0} | more))


class Confirming(BlackBox):
    """A model that notes whom it gave scores of."""

    scored = 0

    def scores(self, individuals):
        self.scored += len(individuals)
        return super().scores(individuals)


def said(result: SearchResult) -> dict[str, object]:
    return result.model_dump(exclude={"seconds", "asked"})


def test_a_white_box_finds_the_same_with_the_models_own_scores():
    inside = network(3)
    alone = search.search(Confirming(inside), people(60, 1), seeds=20, local=20, seed=2)
    model = Confirming(inside)
    together = search.search(model, people(60, 1), seeds=20, local=20, seed=2, white_box=inside)
    assert (alone.asked, together.asked) == ("model", "white box")
    assert said(together) == said(alone)
    assert np.array_equal(together.table.scores, alone.table.scores)
    assert model.scored < together.queries


@pytest.mark.parametrize(("model", "white_box"), [(BlackBox, network(4)), (BlackBox, None), (LabelOnly, network(3))])
def test_a_white_box_with_other_scores_is_not_asked(model, white_box):
    alone, together = (
        search.search(model(network(3)), people(60, 1), seeds=20, local=20, samples=0, white_box=box)
        for box in (None, white_box)
    )
    assert together.asked == "model"
    assert said(together) == said(alone)


def test_close_decisions_are_the_models():
    class Contrary(BlackBox):
        def predict(self, individuals):
            return 1 - super().predict(individuals)

        def scores(self, individuals):
            return super().scores(individuals)[:, ::-1]

    inside, space = network(3), ProfileSpace(SCHEMA)
    rows = space.rows(DOMAIN)
    apart = np.abs(inside.scores(rows) @ [1, -1])
    front = WhiteBoxScorer(Contrary(inside), inside, close=float(np.median(apart)))
    close = apart < front.close
    assert 0 < close.sum() < len(rows)
    assert np.array_equal(front.predict(rows), np.where(close, 1 - inside.predict(rows), inside.predict(rows)))
    scores = inside.scores(rows)
    assert np.array_equal(front.scores(rows), np.where(close[:, None], scores[:, ::-1], scores))
