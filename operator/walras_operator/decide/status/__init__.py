"""Pure: the statuses of all objects that the operator writes, one module for each kind."""
