"""Pure: have agents measure the speedups of jobs that do not state one."""
