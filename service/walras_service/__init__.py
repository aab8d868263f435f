"""Infrastructure that all programs share: options, errors, logs, probes, and API requests."""
