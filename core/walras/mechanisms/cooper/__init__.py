"""Cooper: tasks share processors by cooperative games (Llull, Fan, Zahedi and Lee, HPCA 2017)."""
