"""The market for cores: what its paper draws, and what it compares."""
