"""Less discriminatory alternatives: a declared search, every candidate on record, and a choice by a stated rule."""
