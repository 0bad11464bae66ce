"""Less discriminatory alternatives: a declared search, a record of every candidate, and a choice by a stated rule."""
