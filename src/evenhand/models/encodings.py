"""Which number stands for which value: a model that is fed with codes is refused where that would be a guess.

Codes in another order than the training's exchange groups without a word.
"""

from __future__ import annotations

from collections.abc import Sequence

from evenhand.core.text import list_some
from evenhand.errors import ModelError
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.models.blackbox.estimator import EstimatorModel
from evenhand.models.blackbox.onnx_model import OnnxModel
from evenhand.models.blackbox.torch_module import TorchModule
from evenhand.models.readers.onnx_signature import encoded_attributes
from evenhand.models.scorer import Scorer
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import attribute_to_yaml


def require_encodings(scorer: Scorer) -> Scorer:
    """Return a model, unless it is fed with numbers for categories and nothing says which number means which value.

    Raises:
        ModelError: as ``refuse_guessed_codes``.
    """
    refuse_guessed_codes(_encoded_attributes(scorer), scorer.name)
    return scorer


def refuse_guessed_codes(attributes: Sequence[Attribute], location: str) -> None:
    """Refuse attributes that a model is given as codes where nothing says which number means which value.

    Raises:
        ModelError: an attribute lacks its encoding; the message has the lines to put into a schema.
    """
    guessed = [attribute for attribute in attributes if attribute.lacks_encoding]
    if not guessed:
        return
    names = ", ".join(attribute.name for attribute in guessed)
    shown = "".join(f"\n    {_describe_codes(attribute)}" for attribute in guessed)
    lines = [attribute.model_copy(update={"encoding": "code"}) for attribute in guessed]
    raise ModelError(
        f"the model takes numbers for {names}, and nothing says which number stands for which value\n"
        f"  in the order of the schema{shown}",
        location=location,
        hint="look up how the model was trained, and say it in the schema (`evenhand schema` writes one; in "
        "Python schema.with_encodings); if this is how, its lines are:\n" + "\n".join(map(attribute_to_yaml, lines)),
    )


def _encoded_attributes(scorer: Scorer) -> Sequence[Attribute]:
    """Return the attributes that a model is given by their encoding, not in the data's own words."""
    if isinstance(scorer, OnnxModel):
        return encoded_attributes(scorer.session, scorer.schema)
    if isinstance(scorer, AdditiveNetwork | TorchModule) or (
        isinstance(scorer, EstimatorModel) and scorer.form == "numbers"
    ):
        return scorer.schema.attributes
    return ()


def _describe_codes(attribute: Attribute) -> str:
    """List which number each value gets."""
    return f"{attribute.name}: " + list_some([f"{code} {value}" for code, value in enumerate(attribute.values or ())])
