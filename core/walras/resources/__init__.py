"""The documents that users and administrators write, group ``walras.dev/v1alpha1``."""
