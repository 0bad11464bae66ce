"""``evenhand genai ...``: generators that keep showing every value of what they are asked for."""

from evenhand.cli.genai.commands import app as app
