"""What the market was like: samples in ConfigMaps, kept by the leader."""
