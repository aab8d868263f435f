"""How decisions are written: objects, placements of pods, Events, and the parts of a ledger."""
