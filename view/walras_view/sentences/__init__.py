"""Pure: what is shown of facts, rows and explanations, as sentences for people."""
