"""F and run times of real programs, predicted from samples."""
