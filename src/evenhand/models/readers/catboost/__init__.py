"""CatBoost models from their own files (.cbm and .json), without CatBoost."""
