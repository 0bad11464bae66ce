"""Commands of ``evenhand genai``."""
