"""Where waiting jobs go: pairs of jobs that share a socket."""
