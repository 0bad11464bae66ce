"""Groups known by probability alone: rates, differences and bounds, and how they are said."""
