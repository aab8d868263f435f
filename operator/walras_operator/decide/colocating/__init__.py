"""Pure: place waiting pods in pairs on nodes, and report on it."""
