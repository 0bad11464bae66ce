"""What both of fairlearn's methods need: the library, two labels, a choice on the validation part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from evenhand.errors import DataError, MissingExtraError
from evenhand.mitigate.baselines.lots import ByLot, Chance
from evenhand.mitigate.candidate import Situation, Trial
from evenhand.mitigate.choice import accuracy, remaining, sizes
from evenhand.models import Scorer

RANDOMISED = (
    "fairlearn's answers are drawn at random; here the draw is fixed by what a person is apart from the protected "
    "attributes, so that the same person always gets the same answer"
)


TRUSTED = "a .joblib file runs code when it is read: it is taken with --trust alone"


def need_fairlearn() -> None:
    """Refuse to go on without the library.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import fairlearn  # noqa: F401
    except ImportError:
        raise MissingExtraError("fairlearn", extra="fairlearn", purpose="for fairlearn's methods") from None


@contextmanager
def its_own_warnings() -> Iterator[None]:
    """What fairlearn is told by its own libraries about versions to come is not for our readers."""
    import warnings

    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("ignore", category=kind, module=r"fairlearn\.")
        yield


def need_two_labels(given: Scorer) -> None:
    """Refuse a model that decides between more.

    Raises:
        DataError: it does.
    """
    if len(given.classes) != 2:
        raise DataError(
            f"the model decides between {len(given.classes)} labels; fairlearn's methods know two",
            where=given.name,
            mend="leave these methods out",
        )


def by_lot(situation: Situation, name: str, chance: Chance) -> ByLot:
    """A scorer that decides by lot between the labels of the given model."""
    given = situation.given
    return ByLot(given.schema, given.classes, given.favourable, name, chance, situation.config.seed)


def chosen(
    situation: Situation, made: Sequence[ByLot], values: Sequence[float], setting: str
) -> tuple[int, tuple[Trial, ...]]:
    """Which to take: on the validation part, the least harm among those that lose little enough accuracy.

    Where none does, the most accurate.
    """
    people, harms = situation.split.validation, situation.harms
    before = sizes(situation.given, people, harms)
    found = [(accuracy(scorer, people), sizes(scorer, people, harms)) for scorer in made]
    least = accuracy(situation.given, people) - situation.config.accuracy_loss
    allowed = [i for i, (right, _) in enumerate(found) if right >= least - 1e-9]
    best = (
        min(allowed, key=lambda i: (remaining(found[i][1], before, len(people)), -found[i][0]))
        if allowed
        else max(range(len(found)), key=lambda i: found[i][0])
    )
    return best, tuple(
        Trial(setting=setting, value=value, accuracy=right, harms=harm, chosen=i == best)
        for i, (value, (right, harm)) in enumerate(zip(values, found, strict=False))
    )
