"""The process that runs on a node: takes plans, holds the node to them, and tells how it goes."""
