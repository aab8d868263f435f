"""What is done once, before the operator first runs and after it last ran."""
