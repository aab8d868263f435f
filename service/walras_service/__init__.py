"""What every process of Walras needs, whatever it does: options, errors, logs, probes, requests."""
