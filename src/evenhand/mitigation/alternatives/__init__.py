"""Less discriminatory alternatives: a declared search, a record of all candidates, and a choice by a stated rule."""
