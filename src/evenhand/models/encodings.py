"""Check that a model's codes are stated: codes in another order than in training would swap groups silently."""

from __future__ import annotations

from typing import Any, TypeVar

from evenhand.core.text import list_some
from evenhand.errors import ModelError
from evenhand.models.additive.network import AdditiveNetwork
from evenhand.schema.schema import attribute_to_yaml

ModelT = TypeVar("ModelT", bound=Any)


def require_encodings(model: ModelT) -> ModelT:
    """Return a model, unless it takes numbers for categories and the schema does not state which number is which value.

    Raises:
        ModelError: An attribute lacks its encoding. The message has the lines to put into a schema.
    """
    is_network = isinstance(model, AdditiveNetwork)
    attributes = model.schema.attributes if is_network else getattr(model, "encoded_attributes", ())
    guessed = [attribute for attribute in attributes if attribute.lacks_encoding]
    if not guessed:
        return model
    codes = (
        f"\n    {attribute.name}: {list_some([f'{code} {value}' for code, value in enumerate(attribute.values or ())])}"
        for attribute in guessed
    )
    lines = [attribute_to_yaml(attribute.model_copy(update={"encoding": "code"})) for attribute in guessed]
    raise ModelError(
        f"the model takes numbers for {', '.join(attribute.name for attribute in guessed)}, and nothing states which "
        f"number stands for which value\n  in the order of the schema{''.join(codes)}",
        location=model.name,
        hint="look up how the model was trained, and state it in the schema (`evenhand schema` writes one; in "
        "Python schema.with_encodings); if this is the encoding, its lines are:\n" + "\n".join(lines),
    )
