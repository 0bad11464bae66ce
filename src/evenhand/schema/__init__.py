"""What an individual is: attributes, domains, encodings, who is protected, what is decided."""

from evenhand.schema.attribute import Affine, Attribute, Value
from evenhand.schema.files import read_yaml, to_yaml, write_yaml
from evenhand.schema.infer import infer
from evenhand.schema.people import People, decode, encode
from evenhand.schema.schema import Schema, Target
from evenhand.schema.subdomain import Subdomain, subdomain

__all__ = [
    "Affine",
    "Attribute",
    "People",
    "Schema",
    "Subdomain",
    "Target",
    "Value",
    "decode",
    "encode",
    "infer",
    "read_yaml",
    "subdomain",
    "to_yaml",
    "write_yaml",
]
