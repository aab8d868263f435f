"""The node agent: enforces what pods of one node were granted, by its cgroups."""
