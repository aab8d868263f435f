"""The Amdahl market for cores (Zahedi, Llull and Lee, HPCA 2018)."""
