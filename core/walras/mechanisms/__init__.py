"""The five mechanisms of the papers, as solvers of arrays that know no cluster."""
