"""Effects: what the chart's Jobs do before the operator first runs and after it last ran."""
