"""The operator's process: what it watches, when it decides, what it writes, and who leads."""
