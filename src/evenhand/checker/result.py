"""What became of checking a certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from evenhand.result import Result

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


class Unconfirmed(BaseModel):
    """A box whose claimed shares were not proved again: where, what is claimed and what could be proved."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    where: dict[str, str]
    fair: float
    unfair: float
    proved_fair: float
    proved_unfair: float


class CertificateCheck(Result):
    """Whether a certificate file holds what it claims.

    Attributes:
        verdict: ``confirmed``: the file is whole, about this model, its boxes fill the domain, its totals add up, and
            every box that was proved again is right. ``not confirmed``: the same, but for some box the claim was not
            proved again. ``rejected``: the file is broken, or does not fit the model or itself; see ``fault``.
        fault: why it is rejected.
        model: name of the model in the certificate.
        protected: the attributes that were varied.
        population: what masses are measured by.
        population_checked: whether the masses were compared with the population itself, not only taken from the file.
        restricted: attributes of which the certificate is not about all values, and the values it is about.
        where: conditions on the people asked about, as the file states them.
        threshold: on the second label's probability.
        method: how it was proved.
        certified, falsified, undecided: the totals, added up again; None if rejected.
        boxes: how many there are.
        checked: how many different boxes were proved again; those that claim nothing count.
        draws: size of the random sample; None if all boxes were checked.
        unconfirmed: boxes whose claim was not proved again, at most 100; ``failures`` says how many.
        failures: draws (or boxes, if all were checked) that were not confirmed.
        doubt: with this ``confidence``, no more than this part of all that the certificate claims as proved lies in
            boxes that would not be confirmed; None if rejected.
        confidence: of ``doubt``.
    """

    kind: Literal["certificate-check"] = "certificate-check"
    verdict: Literal["confirmed", "not confirmed", "rejected"]
    fault: str | None = None
    model: str | None = None
    protected: tuple[str, ...] = ()
    population: str | None = None
    population_checked: bool = False
    restricted: dict[str, str] = Field(default_factory=dict)
    where: tuple[str, ...] = ()
    threshold: float | None = None
    method: str | None = None
    certified: float | None = None
    falsified: float | None = None
    undecided: float | None = None
    boxes: int = 0
    checked: int = 0
    draws: int | None = None
    unconfirmed: tuple[Unconfirmed, ...] = ()
    failures: int = 0
    doubt: float | None = None
    confidence: float

    def summary(self) -> str:
        """Verdict, totals, and what the sample says."""
        if self.verdict == "rejected":
            return f"rejected: {self.fault}"
        certified, falsified, undecided = self.certified or 0.0, self.falsified or 0.0, self.undecided or 0.0
        lines = [
            f"{self.verdict}: {' x '.join(self.protected)} of {self.model}",
            f"  provably same for {certified:.2%} of {self.population}; provably different {falsified:.2%}; "
            f"undecided {undecided:.2%}",
        ]
        lines += [f"  only {name}: {values}" for name, values in self.restricted.items()]
        if self.threshold not in (None, 0.5):
            lines.append(f"  decision threshold {self.threshold:g}")
        if not self.population_checked:
            lines.append("  masses as the file states them, not compared with data")
        lines.append(f"  {self.boxes:,} boxes fill the domain without gap or overlap, and the totals add up")
        if self.draws is None:
            lines.append(f"  all boxes proved again; {self.failures:,} not confirmed")
        else:
            lines.append(
                f"  {self.checked:,} boxes proved again, drawn {self.draws:,} times by what they claim; "
                f"{self.failures:,} draws not confirmed"
            )
            doubt = self.doubt or 0.0
            lines.append(f"  with {self.confidence:.0%} confidence at most {doubt:.2%} of what is claimed would not be")
        for box in self.unconfirmed[:5]:
            place = "; ".join(f"{name}: {values}" for name, values in box.where.items()) or "everywhere"
            lines.append(
                f"  not confirmed: {place}: claims {box.fair:.4%} fair and {box.unfair:.4%} unfair, "
                f"proved {box.proved_fair:.4%} and {box.proved_unfair:.4%}"
            )
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per box that was not confirmed."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "where": "; ".join(f"{name}: {values}" for name, values in box.where.items()),
                    "fair": box.fair,
                    "unfair": box.unfair,
                    "proved_fair": box.proved_fair,
                    "proved_unfair": box.proved_unfair,
                }
                for box in self.unconfirmed
            ],
            columns=["where", "fair", "unfair", "proved_fair", "proved_unfair"],
        )

    def plot(self) -> alt.TopLevelMixin:
        """One bar: what is certified, undecided and falsified."""
        import altair as alt
        import pandas as pd

        shares = {"certified": self.certified, "undecided": self.undecided, "falsified": self.falsified}
        frame = pd.DataFrame(
            [{"share": name, "value": value, "place": i} for i, (name, value) in enumerate(shares.items()) if value]
        )
        return (
            alt.Chart(frame if len(frame) else pd.DataFrame({"share": ["rejected"], "value": [1.0], "place": [0]}))
            .mark_bar()
            .encode(x=alt.X("value:Q", axis=alt.Axis(format="%")), color="share:N", order="place:Q")
            .properties(title=f"Certificate {self.verdict}")
        )
