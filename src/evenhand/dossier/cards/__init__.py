"""Cards for inventories of models and data: CycloneDX, Hugging Face and Croissant."""

from evenhand.dossier.cards.bom import write_bom
from evenhand.dossier.cards.formats import CardFormat, write_card

__all__ = ["CardFormat", "write_bom", "write_card"]
