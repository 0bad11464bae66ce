"""What every importer of a white box says when a model cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from evenhand.errors import ModelError, NotAdditiveError, TrustError
from evenhand.schema import Schema

BLACK_BOX_HINT = (
    "as a black box it can still be audited and searched, but not certified: that needs preprocessing that acts on one "
    "attribute at a time, then affine and ReLU layers"
)


@contextmanager
def locate_errors(place: str, *, location: str, hint: str = BLACK_BOX_HINT) -> Iterator[None]:
    """Let errors name the part of the model that is being read, e.g. ``layer 'dense_1' (Dense)``.

    NumPy's complaints about shapes and types mean that the model's parts do not fit together.
    """
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused when the network is built
            yield
    except NotAdditiveError as refusal:
        raise NotAdditiveError(f"{place}: {refusal.message}", location=location, hint=hint) from None
    except TrustError as refusal:
        raise TrustError(f"{place}: {refusal.message}", location=location, hint=refusal.hint) from None
    except ModelError as refusal:
        raise ModelError(f"{place}: {refusal.message}", location=location, hint=refusal.hint) from None
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, AttributeError) as error:
        raise ModelError(f"{place} does not fit what comes before it ({error})", location=location) from None


def check_width(width: int, schema: Schema, *, location: str) -> None:
    """Refuse a model of plain numbers that takes another number of them than the schema gives."""
    if width != schema.width:
        raise ModelError(
            f"the model takes {width} inputs, but the schema's {len(schema.attributes)} attributes give {schema.width}",
            location=location,
            hint="describe every input of the model in the schema, in its order, with the right encoding",
        )
